package notice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	"tenon.sh/provider/aws/cloud"
)

// impairedFor is the time for which a check of a machine must have failed before it counts.
const impairedFor = 120 * time.Second

// Ailment is a problem of a machine that EC2's checks have found.
type Ailment struct {
	Instance string
	// Category is InstanceStatus, SystemStatus or EventStatus.
	Category string
}

// Categories of ailments.
const (
	InstanceStatus = "InstanceStatus"
	SystemStatus   = "SystemStatus"
	EventStatus    = "EventStatus"
)

// Ailing asks EC2 for machines that its checks find broken, or that have a scheduled event, ordered by ID.
func Ailing(ctx context.Context, c *cloud.Cloud, clock clock.PassiveClock) ([]Ailment, error) {
	found := map[Ailment]bool{}
	for _, filter := range []ec2types.Filter{
		{Name: aws.String("instance-status.status"), Values: []string{"impaired"}},
		{Name: aws.String("system-status.status"), Values: []string{"impaired"}},
		{Name: aws.String("event.code"), Values: []string{"instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"}},
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(c.EC2, &ec2.DescribeInstanceStatusInput{Filters: []ec2types.Filter{filter}, MaxResults: aws.Int32(1000)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("ask for the status of machines: %w", err)
			}
			for i := range page.InstanceStatuses {
				for _, a := range ailments(&page.InstanceStatuses[i], clock.Now()) {
					found[a] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Ailment) int {
		return slices.Compare([]string{a.Instance, a.Category}, []string{b.Instance, b.Category})
	}), nil
}

// ailments reads EC2's status of a machine. It checks everything again, whatever the filters of the call. Slow or unreachable disks do not
// count.
func ailments(s *ec2types.InstanceStatus, now time.Time) (out []Ailment) {
	id := aws.ToString(s.InstanceId)
	if failed(s.InstanceStatus, now) {
		out = append(out, Ailment{id, InstanceStatus})
	}
	if failed(s.SystemStatus, now) {
		out = append(out, Ailment{id, SystemStatus})
	}
	for _, e := range s.Events {
		over := strings.HasPrefix(aws.ToString(e.Description), "[Completed]") || strings.HasPrefix(aws.ToString(e.Description), "[Canceled]")
		if e.Code != "" && !over {
			return append(out, Ailment{id, EventStatus})
		}
	}
	return out
}

func failed(s *ec2types.InstanceStatusSummary, now time.Time) bool {
	if s == nil || s.Status != ec2types.SummaryStatusImpaired {
		return false
	}
	return slices.ContainsFunc(s.Details, func(d ec2types.InstanceStatusDetails) bool {
		return d.Status == ec2types.StatusTypeFailed && d.ImpairedSince != nil && now.Sub(*d.ImpairedSince) >= impairedFor
	})
}
