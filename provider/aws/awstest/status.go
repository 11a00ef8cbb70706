package awstest

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Ailment is the result of EC2's checks of a machine.
type Ailment struct {
	ID string
	// Instance and System are true if the check has failed since Since.
	Instance, System bool
	Since            time.Time
	// Event is the code of a scheduled event of the machine, for example "instance-retirement"; "" for none.
	Event string
}

// SetAilments replaces the results of EC2's checks.
func (a *Account) SetAilments(list ...Ailment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ailments = list
}

func (a *Account) describeStatus(call Call) string {
	var items []string
	filters := call.filters()
	for _, x := range a.ailments {
		_, system := filters["system-status.status"]
		_, instance := filters["instance-status.status"]
		_, event := filters["event.code"]
		if system && !x.System || instance && !x.Instance || event && x.Event == "" {
			continue
		}
		item := element("instanceId", x.ID) + status("instanceStatus", x.Instance, x.Since) + status("systemStatus", x.System, x.Since)
		if x.Event != "" {
			item += "<eventsSet><item>" + element("code", x.Event) + "</item></eventsSet>"
		}
		items = append(items, item)
	}
	return orEmpty("DescribeInstanceStatus", "instanceStatusSet", items)
}

func status(name string, failed bool, since time.Time) string {
	if !failed {
		return "<" + name + ">" + element("status", "ok") + "</" + name + ">"
	}
	return "<" + name + ">" + element("status", "impaired") + "<details><item>" + element("name", "reachability") + element("status", "failed") +
		element("impairedSince", since.UTC().Format(time.RFC3339)) + "</item></details></" + name + ">"
}

// NewQueue makes a queue, and returns its URL.
func (a *Account) NewQueue(name string) string {
	a.t.Helper()
	out, err := sqs.NewFromConfig(a.Config()).CreateQueue(a.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name)})
	a.must(err)
	return *out.QueueUrl
}

// Send puts messages on a queue.
func (a *Account) Send(url string, bodies ...string) {
	a.t.Helper()
	client := sqs.NewFromConfig(a.Config())
	for _, body := range bodies {
		_, err := client.SendMessage(a.t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(url), MessageBody: aws.String(body)})
		a.must(err)
	}
}

// HandOutAgain makes queues return a message that was not deleted with every call, instead of some seconds later.
func (a *Account) HandOutAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.impatient = true
}

var visibility = regexp.MustCompile(`"VisibilityTimeout":\d+`)

// hurried returns the body of a call to a queue, changed for HandOutAgain.
func (a *Account) hurried(body []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.impatient {
		return body
	}
	return visibility.ReplaceAll(body, []byte(`"VisibilityTimeout":0`))
}

// Interruption returns the message that EventBridge puts on the queue two minutes before a spot machine is taken back.
func Interruption(id string) string {
	return fmt.Sprintf(`{"version":"0","id":"1","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","account":"1","region":%q,`+
		`"time":%q,"resources":[],"detail":{"instance-id":%q,"instance-action":"terminate"}}`, Region, time.Now().UTC().Format(time.RFC3339), id)
}

// Machines returns the machines of the account that run or start, by name, whatever their tags.
func (a *Account) Machines() map[string]ec2types.Instance {
	a.t.Helper()
	out, err := a.machines(a.t.Context())
	a.must(err)
	return out
}

func (a *Account) machines(ctx context.Context) (map[string]ec2types.Instance, error) {
	out := map[string]ec2types.Instance{}
	pages := ec2.NewDescribeInstancesPaginator(a.ec2(), &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"}}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				out[aws.ToString(i.InstanceId)] = i
			}
		}
	}
	return out, nil
}

// StartMachine starts a machine with these tags, as a user might by hand, and returns its name.
func (a *Account) StartMachine(tags map[string]string) string {
	a.t.Helper()
	out, err := a.ec2().RunInstances(a.t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String(motoImage), InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: tagged(ec2types.ResourceTypeInstance, tags),
	})
	a.must(err)
	return aws.ToString(out.Instances[0].InstanceId)
}

// Kill terminates a machine, as a user might by hand.
func (a *Account) Kill(id string) {
	a.t.Helper()
	_, err := a.ec2().TerminateInstances(a.t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	a.must(err)
}

func (a *Account) deleteTemplate(name string) {
	_, _ = a.ec2().DeleteLaunchTemplate(a.t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(name)})
}
