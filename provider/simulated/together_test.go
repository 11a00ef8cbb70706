package simulated_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/provider/simulated"
)

// Studies of public clouds find that spot machines which are lost at the same time are nearly always of one type and zone: over 92 % of the
// pairs. This holds for a quarter of a year of two dozen pools.
func TestMachinesThatAreLostTogetherAreOfOneTypeAndZone(t *testing.T) {
	t.Parallel()
	s := newSky(t, simulated.Config{Seed: 1, Profile: simulated.Profile{Spot: profile(t, "aws-typical").Spot}})
	for _, family := range []string{"c", "m", "s"} {
		for _, size := range []int{2, 4, 8, 16} {
			for _, zone := range []string{"test-zone-a", "test-zone-b"} {
				id := engine.OfferingID{InstanceType: fmt.Sprintf("%s-%dx-amd64-linux", family, size), Zone: zone, CapacityType: "spot"}
				if s.Price(id) > 0 {
					s.fleet(t, fmt.Sprintf("%s-%d-%s", family, size, zone), 20, id)
				}
			}
		}
	}
	type loss struct {
		at time.Time
		of engine.OfferingID
	}
	losses := map[string]loss{}
	for minute := range 90 * 24 * 60 {
		s.at(time.Duration(minute) * time.Minute)
		for _, n := range s.Notices() {
			losses[n.ID] = loss{n.At, simulated.OfferingOf(mustInspect(t, s, n.Machine))}
			s.Acknowledge(n.ID)
		}
	}
	var list []loss
	for _, l := range losses {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b loss) int { return a.at.Compare(b.at) })
	pairs, alike := 0, 0
	for i, a := range list {
		for _, b := range list[i+1:] {
			if b.at.Sub(a.at) > 3*time.Minute {
				break
			}
			pairs++
			if a.of == b.of {
				alike++
			}
		}
	}
	if share := float64(alike) / float64(pairs); len(list) < 100 || share < 0.92 {
		t.Errorf("%d machines were lost; of %d pairs within three minutes %d are of one type and zone", len(list), pairs, alike)
	} else {
		t.Logf("%d machines were lost; of %d pairs within three minutes %.1f %% are of one type and zone", len(list), pairs, 100*share)
	}
}
