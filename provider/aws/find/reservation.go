package find

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// Reservation is a capacity reservation as EC2 describes it.
type Reservation struct {
	awsv1.CapacityReservation
	// Free is the number of machines for which it still has room.
	Free int
}

// Reservations finds the capacity reservations that any term selects, ordered by ID. It leaves out reservations that have ended, and those of
// an unknown kind.
func (f *Finder) Reservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]Reservation, error) {
	found := map[string]Reservation{}
	for _, query := range reservationQueries(terms) {
		list, err := f.reservations.Get(ctx, keyOf(query), func(ctx context.Context) ([]Reservation, error) { return f.describeReservations(ctx, query) })
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			found[r.ID] = r
		}
	}
	var out []Reservation
	now := f.clock.Now()
	for _, r := range found {
		if r.EndTime != nil && !r.EndTime.After(now) {
			continue
		}
		r.State = awsv1.ReservationActive
		if r.ReservationType == awsv1.ReservationBlock && r.EndTime != nil && !now.Before(r.EndTime.Add(-blockEndsBefore)) {
			r.State = awsv1.ReservationExpiring
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Reservation) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func reservationQueries(terms []awsv1.CapacityReservationSelectorTerm) (out []ec2.DescribeCapacityReservationsInput) {
	for _, t := range terms {
		active := filter("state", string(ec2types.CapacityReservationStateActive))
		if t.ID != "" {
			out = append(out, ec2.DescribeCapacityReservationsInput{Filters: []ec2types.Filter{active}, CapacityReservationIds: []string{t.ID}})
			continue
		}
		filters := append([]ec2types.Filter{active}, tagFilters(t.Tags)...)
		if t.OwnerID != "" {
			filters = append(filters, filter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			filters = append(filters, filter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		out = append(out, ec2.DescribeCapacityReservationsInput{Filters: filters, MaxResults: aws.Int32(1000)})
	}
	return out
}

func (f *Finder) describeReservations(ctx context.Context, query ec2.DescribeCapacityReservationsInput) (out []Reservation, err error) {
	pages := ec2.NewDescribeCapacityReservationsPaginator(f.cloud.EC2, &query)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if cloud.NotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for capacity reservations: %w", err)
		}
		for _, described := range page.CapacityReservations {
			if r, known := reservationOf(described); known {
				f.Slots.saw(r.ID, r.Free)
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func reservationOf(r ec2types.CapacityReservation) (Reservation, bool) {
	out := Reservation{Free: int(aws.ToInt32(r.AvailableInstanceCount)), CapacityReservation: awsv1.CapacityReservation{
		ID:                    aws.ToString(r.CapacityReservationId),
		AvailabilityZone:      aws.ToString(r.AvailabilityZone),
		InstanceMatchCriteria: string(r.InstanceMatchCriteria),
		InstanceType:          aws.ToString(r.InstanceType),
		OwnerID:               aws.ToString(r.OwnerId),
		ReservationType:       cmp.Or(string(r.ReservationType), awsv1.ReservationDefault),
		Interruptible:         aws.ToBool(r.Interruptible),
	}}
	if r.EndDate != nil {
		out.EndTime = &metav1.Time{Time: r.EndDate.Truncate(time.Second)}
	}
	return out, slices.Contains([]string{awsv1.ReservationDefault, awsv1.ReservationBlock}, out.ReservationType) &&
		slices.Contains([]string{"open", "targeted"}, out.InstanceMatchCriteria)
}
