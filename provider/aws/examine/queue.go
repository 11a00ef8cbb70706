package examine

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// queueState is SQS's description of the queue.
type queueState struct {
	err error // why it could not be found
	// attributesErr is the reason why only the existence of the queue is known.
	attributesErr error
	policy        string
	waiting       int // messages that no process has read
}

func (x *Examiner) lookAtQueue(ctx context.Context) (q queueState) {
	if x.Queue == "" {
		return q
	}
	found, err := x.Cloud.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(x.Queue)})
	if err != nil {
		q.err = err
		return q
	}
	answer, err := x.Cloud.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: found.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{
		sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	}})
	if err != nil {
		q.attributesErr = err
		return q
	}
	q.policy = answer.Attributes[string(sqstypes.QueueAttributeNamePolicy)]
	q.waiting, _ = strconv.Atoi(answer.Attributes[string(sqstypes.QueueAttributeNameApproximateNumberOfMessages)])
	return q
}

// eventsMaySend reports whether a queue's policy lets EventBridge send messages to it.
func eventsMaySend(policy string) bool {
	var parsed struct {
		Statement oneOrMany[struct {
			Effect    string
			Principal json.RawMessage
			Action    oneOrMany[string]
		}]
	}
	if json.Unmarshal([]byte(policy), &parsed) != nil {
		return false
	}
	for _, s := range parsed.Statement {
		sends := slices.ContainsFunc(s.Action, func(a string) bool {
			return slices.Contains([]string{"*", "sqs:*", "sqs:sendmessage"}, strings.ToLower(a))
		})
		if s.Effect == "Allow" && sends && allows(s.Principal) {
			return true
		}
	}
	return false
}

// allows reports whether a principal is EventBridge, or everybody.
func allows(principal json.RawMessage) bool {
	var everybody string
	if json.Unmarshal(principal, &everybody) == nil {
		return everybody == "*"
	}
	var named struct{ Service, AWS oneOrMany[string] }
	return json.Unmarshal(principal, &named) == nil && (slices.Contains(named.Service, "events.amazonaws.com") || slices.Contains(named.AWS, "*"))
}

// oneOrMany is a list that may be written without brackets if it has one element.
type oneOrMany[T any] []T

// UnmarshalJSON reads both forms.
func (l *oneOrMany[T]) UnmarshalJSON(text []byte) error {
	var many []T
	if json.Unmarshal(text, &many) == nil {
		*l = many
		return nil
	}
	var one T
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*l = oneOrMany[T]{one}
	return nil
}
