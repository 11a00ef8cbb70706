package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/offer"
)

// shiftsEvery is the time between two looks for zonal shifts.
const shiftsEvery = 30 * time.Second

// shifts holds the zones that the cluster is being moved out of, and the IDs of zones.
type shifts struct {
	mu    sync.Mutex // guards the fields below
	ids   []string   // of zones with a zonal shift
	names map[string]string
	asked time.Time
}

// saw records the IDs of zones.
func (s *shifts) saw(subnets []awsv1.Subnet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, subnet := range subnets {
		if s.names == nil {
			s.names = map[string]string{}
		}
		s.names[subnet.Zone] = subnet.ZoneID
	}
}

// left reports whether a zonal shift moves the cluster out of a zone.
func (s *shifts) left(zone string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[zone] != "" && slices.Contains(s.ids, s.names[zone])
}

// idOf returns the ID of a zone, "" if it is not known.
func (s *shifts) idOf(zone string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[zone]
}

// due reports whether it is time for the next look, and records the look.
func (s *shifts) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() && now.Sub(s.asked) < shiftsEvery {
		return false
	}
	s.asked = now
	return true
}

// lookForShifts finds the zones with a zonal shift. If that fails, the last known zones stay.
func (p *Provider) lookForShifts(ctx context.Context) error {
	if !p.config.EnableZonalShift || !p.shifts.due(p.clock.Now()) {
		return nil
	}
	arn, err := p.cluster.ARN(ctx)
	if err != nil {
		return fmt.Errorf("look for zonal shifts: %w", err)
	}
	answer, err := p.cloud.ZonalShift.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: awssdk.String(arn)})
	if err != nil {
		return fmt.Errorf("look for zonal shifts of %s (is the cluster registered for them?): %w", arn, err)
	}
	var ids []string
	for _, z := range answer.ZonalShifts {
		if z.AppliedStatus == shifttypes.AppliedStatusApplied && awssdk.ToTime(z.ExpiryTime).After(p.clock.Now()) {
			ids = append(ids, awssdk.ToString(z.AwayFrom))
		}
	}
	slices.Sort(ids)
	p.shifts.mu.Lock()
	before := p.shifts.ids
	p.shifts.ids = ids
	p.shifts.mu.Unlock()
	p.marks.Zones(ids)
	if slices.Equal(before, ids) {
		return nil
	}
	log.FromContext(ctx).Info("zones that the cluster is being moved out of have changed", "before", before, "now", ids)
	return p.tellOfShifts(ctx, before, ids)
}

// tellOfShifts sends an event for every zone whose zonal shift has begun or ended, for each NodePool that can use the zone.
func (p *Provider) tellOfShifts(ctx context.Context, before, now []string) error {
	var pools v1.NodePoolList
	var classes awsv1.EC2NodeClassList
	if err := errors.Join(p.client.List(ctx, &pools), p.client.List(ctx, &classes)); err != nil {
		return fmt.Errorf("tell NodePools of zonal shifts: %w", err)
	}
	subnets := map[string][]awsv1.Subnet{}
	for i := range classes.Items {
		subnets[classes.Items[i].Name] = classes.Items[i].Status.Subnets
	}
	for i := range pools.Items {
		pool := &pools.Items[i]
		ref := pool.Spec.Template.Spec.NodeClassRef
		if ref == nil || ref.Group != awsv1.Group {
			continue
		}
		wanted, told := offer.NewWanted(pool.Spec.Template.Spec.Requirements), map[string]bool{}
		for _, s := range subnets[ref.Name] {
			was, is := slices.Contains(before, s.ZoneID), slices.Contains(now, s.ZoneID)
			if told[s.Zone] || was == is || !wanted.Allows(corev1.LabelTopologyZone, s.Zone) {
				continue
			}
			told[s.Zone] = true
			e := provider.Event{Object: pool, Reason: "ZonalShiftCleared", Message: fmt.Sprintf("zone %s (%s) is used again: its zonal shift has ended", s.Zone, s.ZoneID)}
			if is {
				e.Warning, e.Reason = true, "ZonalShiftActive"
				e.Message = fmt.Sprintf("zone %s (%s) is not used: the cluster is being moved out of it by a zonal shift", s.Zone, s.ZoneID)
			}
			p.config.Tell(e)
		}
	}
	return nil
}
