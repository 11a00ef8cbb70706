package dra_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"tenon.sh/deviceselector"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/enginetest"
)

// kubeScheduler has the default features of Kubernetes 1.36.
var kubeScheduler = structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true}

// A classList returns DeviceClasses as an informer does.
type classList []*resourcev1.DeviceClass

func (l classList) List() ([]*resourcev1.DeviceClass, error) { return l, nil }

func (l classList) Get(name string) (*resourcev1.DeviceClass, error) {
	for _, c := range l {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no DeviceClass %s", name)
}

// A setting is one cluster with claims that pods bring one after another.
type setting struct {
	node    *corev1.Node
	slices  []*resourcev1.ResourceSlice
	classes classList
	claims  []*resourcev1.ResourceClaim // the allocated claims
}

// A verdict is the result of an allocator for one pod's claims.
type verdict struct {
	kind  string // "fits", "does not fit" or "error"
	picks string
	why   string
	code  device.Code
}

// oracle asks the allocator that kube-scheduler links.
func (s *setting) oracle(t *testing.T, compiled *cel.Cache, claims []*resourcev1.ResourceClaim) (verdict, []resourcev1.AllocationResult) {
	t.Helper()
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	for _, c := range s.claims {
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
			case r.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				if r.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	allocator, err := structured.NewAllocator(context.Background(), kubeScheduler, state, s.classes, s.slices, compiled)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // kube-scheduler gives it ten
	defer cancel()
	results, err := allocator.Allocate(ctx, s.node, claims)
	switch {
	case ctx.Err() != nil:
		return verdict{kind: "no answer"}, nil
	case err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode):
		return verdict{kind: "error", why: err.Error()}, nil
	case err != nil || results == nil:
		return verdict{kind: "does not fit"}, nil
	}
	var picks []string
	for i, result := range results {
		for _, r := range result.Devices.Results {
			picks = append(picks, fmt.Sprintf("%d:%s=%s/%s/%s shared=%t admin=%t", i, r.Request, r.Driver, r.Pool, r.Device, r.ShareID != nil, r.AdminAccess != nil && *r.AdminAccess))
		}
	}
	return verdict{kind: "fits", picks: strings.Join(picks, "\n")}, results
}

// engine runs our allocator.
func (s *setting) engine(t *testing.T, selectors *deviceselector.Evaluator, claims []*resourcev1.ResourceClaim) verdict {
	t.Helper()
	m := dra.NewModel()
	pools := dra.Publish(s.slices).Pools(m, s.node.Name, s.node.Labels)
	var asked []device.Claim
	for _, c := range claims {
		read, reason := m.Claim(c, dra.Classes(s.classes))
		if reason != nil {
			t.Fatalf("claim %s: %+v", c.Name, *reason)
		}
		asked = append(asked, read)
	}
	picks, reason := device.Allocate(m.Facts(selectors.Ask), pools, dra.Allocated(s.claims, nil), asked, 0)
	switch {
	case reason != nil && reason.Fatal():
		return verdict{kind: "error", why: fmt.Sprintf("%+v", *reason), code: reason.Code}
	case reason != nil:
		return verdict{kind: "does not fit", why: fmt.Sprintf("%+v", *reason), code: reason.Code}
	}
	var lines []string
	for i := range picks {
		for _, p := range picks[i] {
			lines = append(lines, fmt.Sprintf("%d:%s=%s/%s/%s shared=%t admin=%t", i, p.Request, p.Driver, p.Pool, p.Device, p.Shared, p.Admin))
		}
	}
	return verdict{kind: "fits", picks: strings.Join(lines, "\n")}
}

// TestTheAllocatorAgreesWithKubeScheduler draws clusters, lets pods bring claims one after another, and asks kube-scheduler's own
// allocator about each: the same devices, or none, or an error. ORACLE_CLAIMS says how many times; ORACLE_SEED begins elsewhere.
func TestTheAllocatorAgreesWithKubeScheduler(t *testing.T) {
	t.Parallel()
	want, first := numberFrom(t, "ORACLE_CLAIMS", 400+int(enginetest.Draws(1600))), uint64(numberFrom(t, "ORACLE_SEED", 1))
	compiled := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	selectors := deviceselector.New()
	kinds := map[string]int{}
	for seed := first; kinds["drawn"] < want; seed++ {
		d := newDrawing(seed)
		s := &setting{slices: d.slices(), classes: d.classes()}
		for pod := range 4 {
			d.lenient, s.node = false, d.node()
			var claims []*resourcev1.ResourceClaim
			for i := range 1 + d.IntN(3)/2 {
				claims = append(claims, d.claim(fmt.Sprintf("claim-%d-%d", pod, i)))
			}
			theirs, results := s.oracle(t, compiled, claims)
			ours := s.engine(t, selectors, claims)
			kinds["drawn"]++
			kinds[theirs.kind]++
			if ours.code != "" {
				kinds[string(ours.code)]++
			}
			s.count(kinds, claims, results)
			switch {
			case theirs.kind == "no answer" || ours.code == device.GaveUp: // a search that takes too long, which has to be rare
			case d.lenient:
				kinds["lenient"]++
				if ours.kind == "fits" && theirs.kind != "fits" {
					t.Errorf("seed %d, pod %d: %s, kube-scheduler says %s %s", seed, pod, ours.kind, theirs.kind, theirs.why)
				}
			case ours.kind != theirs.kind || ours.picks != theirs.picks:
				t.Errorf("seed %d, pod %d: %s %s\n%s\nkube-scheduler says: %s %s\n%s", seed, pod, ours.kind, ours.why, ours.picks, theirs.kind, theirs.why, theirs.picks)
			}
			if theirs.kind == "fits" && ours.kind == "fits" {
				s.checkWritten(t, selectors, claims, results)
			}
			for i := range results {
				claims[i].Status.Allocation = &results[i]
				s.claims = append(s.claims, claims[i])
			}
		}
	}
	t.Logf("%v", kinds)
	if rare := kinds["no answer"] + kinds[string(device.GaveUp)]; rare > 1+want/1000 {
		t.Errorf("%d of %d draws were not answered", rare, want)
	}
	for _, kind := range []string{"fits", "does not fit", "error", string(device.NotTogether), "fits with constraint", "fits with second claim", "fits with all",
		"fits with several", "fits with second choice", "fits with share", "fits with admin", "fits with tainted", "fits with counters"} {
		if kinds[kind] < want/150 {
			t.Errorf("only %d of %d draws are of the kind %q: this tests little", kinds[kind], want, kind)
		}
	}
}

// checkWritten compares the allocations that both would write on the claims.
func (s *setting) checkWritten(t *testing.T, selectors *deviceselector.Evaluator, claims []*resourcev1.ResourceClaim, results []resourcev1.AllocationResult) {
	t.Helper()
	c := dra.Cluster{Claims: s.claims, Classes: s.classes, Published: dra.Publish(s.slices), Selectors: selectors.Ask}
	written, reason := c.Allocate(s.node, claims)
	if reason != nil {
		t.Errorf("allocated by the library, and refused: %+v", *reason)
		return
	}
	text := func(r *resourcev1.DeviceRequestAllocationResult) string {
		consumed := map[string]int64{}
		for name, q := range r.ConsumedCapacity {
			consumed[string(name)] = q.MilliValue()
		}
		return fmt.Sprintf("%s %s/%s/%s admin %t share %t %v", r.Request, r.Driver, r.Pool, r.Device, r.AdminAccess != nil && *r.AdminAccess, r.ShareID != nil, consumed)
	}
	for i := range results {
		for j := range results[i].Devices.Results {
			want, got := text(&results[i].Devices.Results[j]), text(&written[i].Status.Allocation.Devices.Results[j])
			if got != want {
				t.Errorf("written %s, kube-scheduler writes %s", got, want)
			}
		}
	}
}

// count records the features of the found allocations, because a feature that none of them has is not tested.
func (s *setting) count(kinds map[string]int, claims []*resourcev1.ResourceClaim, results []resourcev1.AllocationResult) {
	taints, counters := map[string]bool{}, map[string]bool{}
	for _, list := range s.slices {
		for _, d := range list.Spec.Devices {
			name := list.Spec.Pool.Name + "/" + d.Name
			taints[name] = taints[name] || len(d.Taints) > 0
			counters[name] = counters[name] || len(d.ConsumesCounters) > 0
		}
	}
	for i := range results {
		has := map[string]bool{"constraint": len(claims[i].Spec.Devices.Constraints) > 0, "second claim": i > 0}
		for _, r := range claims[i].Spec.Devices.Requests {
			all := resourcev1.DeviceAllocationModeAll
			has["all"] = has["all"] || r.Exactly != nil && r.Exactly.AllocationMode == all
			has["several"] = has["several"] || r.Exactly != nil && r.Exactly.Count > 1
		}
		for _, r := range results[i].Devices.Results {
			has["second choice"] = has["second choice"] || strings.HasSuffix(r.Request, "/sub-1")
			has["share"] = has["share"] || r.ShareID != nil
			has["admin"] = has["admin"] || r.AdminAccess != nil
			has["tainted"] = has["tainted"] || taints[r.Pool+"/"+r.Device]
			has["counters"] = has["counters"] || counters[r.Pool+"/"+r.Device]
		}
		for name, here := range has {
			if here {
				kinds["fits with "+name]++
			}
		}
	}
}

func numberFrom(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}
