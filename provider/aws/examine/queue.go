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

// queueState is the queue as SQS describes it.
type queueState struct {
	err error // why it could not be found
	// attributesErr is why it is not known more of it than that it is there.
	attributesErr error
	policy        string
	waiting       int // messages that nobody has read
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

// eventsMaySend reports whether a queue's policy lets EventBridge put messages on it.
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

// oneOrMany is a list that policies may write as its only element.
type oneOrMany[T any] []T

// UnmarshalJSON reads either.
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
