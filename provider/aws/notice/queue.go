package notice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/provider/aws/cloud"
)

const (
	perCall = 10 // messages, the most that SQS returns
	// hidden is the time for which a received message is not returned again.
	hidden = 20 * time.Second
	// readers is the number of parallel calls that read a full queue.
	readers = 8
	// mostAtOnce is the largest number of messages of one look; the next look returns the rest.
	mostAtOnce = 2000
	// missingAge is the time until a missing queue is looked up again.
	missingAge = 10 * time.Second
)

// Message is a message of the queue.
type Message struct {
	ID string
	Event
	handle string
}

// Queue is the interruption queue. It may be used from several goroutines.
type Queue struct {
	cloud *cloud.Cloud
	clock clock.PassiveClock
	name  string
	wait  time.Duration
	// count is called for every message that was read, and for every message that was deleted.
	count Counter

	mu      sync.Mutex // guards the fields below
	url     string
	missing time.Time // when the queue was last found missing
	problem error
}

// Counter counts messages.
type Counter interface {
	Received(kind string, waited time.Duration)
	Deleted()
}

// NewQueue makes a Queue. It calls no service. wait is the time that SQS may hold a call that finds no message; with 0, SQS answers immediately.
func NewQueue(c *cloud.Cloud, clock clock.PassiveClock, name string, wait time.Duration, count Counter) *Queue {
	return &Queue{cloud: c, clock: clock, name: name, wait: wait, count: count}
}

// address finds the URL of the queue.
func (q *Queue) address(ctx context.Context) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.url != "" {
		return q.url, nil
	}
	if q.problem != nil && q.clock.Since(q.missing) < missingAge {
		return "", q.problem
	}
	answer, err := q.cloud.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(q.name)})
	if err != nil {
		q.missing, q.problem = q.clock.Now(), fmt.Errorf("find the interruption queue %s: %w", q.name, err)
		if cloud.NotFound(err) {
			q.problem = fmt.Errorf("%w: create it, or correct INTERRUPTION_QUEUE", q.problem)
		}
		return "", q.problem
	}
	q.url, q.problem = aws.ToString(answer.QueueUrl), nil
	return q.url, nil
}

// Messages reads the messages on the queue. It counts and deletes messages without a meaning, and messages that cannot be parsed. The others
// stay until Delete is called, and come again if it is not.
func (q *Queue) Messages(ctx context.Context) ([]Message, error) {
	url, err := q.address(ctx)
	if err != nil {
		return nil, err
	}
	found, err := q.receive(ctx, url, q.wait)
	if err != nil {
		return nil, err
	}
	if len(found) == perCall { // there are more
		found = append(found, q.drain(ctx, url)...)
	}
	return q.sort(ctx, url, found), nil
}

// receive reads once.
func (q *Queue) receive(ctx context.Context, url string, wait time.Duration) ([]sqstypes.Message, error) {
	answer, err := q.cloud.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(url), MaxNumberOfMessages: perCall, VisibilityTimeout: int32(hidden.Seconds()), WaitTimeSeconds: int32(wait.Seconds()),
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
		MessageAttributeNames:       []string{"All"},
	})
	if err != nil {
		if cloud.NotFound(err) { // the queue was deleted, and may come back with another URL
			q.mu.Lock()
			q.url = ""
			q.mu.Unlock()
		}
		return nil, fmt.Errorf("read the interruption queue %s: %w", q.name, err)
	}
	return answer.Messages, nil
}

// drain reads with several parallel calls until the queue is empty. A call that fails stops its loop; the messages of the other calls are
// still returned.
func (q *Queue) drain(ctx context.Context, url string) (out []sqstypes.Message) {
	var mu sync.Mutex // guards out
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for {
				found, err := q.receive(ctx, url, 0)
				mu.Lock()
				out = append(out, found...)
				full := len(out) >= mostAtOnce
				mu.Unlock()
				if err != nil || len(found) < perCall || full {
					return
				}
			}
		})
	}
	group.Wait()
	return out
}

// sort parses messages, and deletes the useless ones from the queue.
func (q *Queue) sort(ctx context.Context, url string, found []sqstypes.Message) (out []Message) {
	var useless []string
	for _, m := range found {
		event, err := Parse(aws.ToString(m.Body))
		q.count.Received(event.Type, q.waited(event))
		if err != nil || event.Kind == "" || len(event.Instances) == 0 {
			useless = append(useless, aws.ToString(m.ReceiptHandle))
			continue
		}
		out = append(out, Message{ID: aws.ToString(m.MessageId), Event: event, handle: aws.ToString(m.ReceiptHandle)})
	}
	if err := q.delete(ctx, url, useless); err != nil { // they come again
		log.FromContext(ctx).Error(err, "messages that mean nothing stay on the queue")
	}
	return out
}

func (q *Queue) waited(e Event) time.Duration {
	if e.At.IsZero() {
		return 0
	}
	return max(0, q.clock.Since(e.At))
}

// Delete deletes messages from the queue.
func (q *Queue) Delete(ctx context.Context, messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	url, err := q.address(ctx)
	if err != nil {
		return err
	}
	var handles []string
	for _, m := range messages {
		handles = append(handles, m.handle)
	}
	return q.delete(ctx, url, handles)
}

func (q *Queue) delete(ctx context.Context, url string, handles []string) error {
	var errs []error
	for len(handles) > 0 {
		n := min(perCall, len(handles))
		in := &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(url)}
		for i, h := range handles[:n] {
			in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: aws.String(h)})
		}
		handles = handles[n:]
		answer, err := q.cloud.SQS.DeleteMessageBatch(ctx, in)
		if err != nil {
			errs = append(errs, fmt.Errorf("take messages off the interruption queue %s: %w", q.name, err))
			continue
		}
		for range answer.Successful {
			q.count.Deleted()
		}
	}
	return errors.Join(errs...)
}
