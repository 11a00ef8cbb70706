package simulator

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const claiming = `now 2026-03-02T00:00:00Z
cloud fixed30
pool general budget=100% consolidate-after=1m
type none cpu=4 mem=8Gi zones=a,b price=0.2
type one cpu=4 mem=8Gi zones=a,b price=1 devices=(driver=gpu.example.com count=2)
type two cpu=4 mem=8Gi zones=a,b price=1.5 devices=(driver=gpu.example.com count=2)
deviceclass gpu driver=gpu.example.com resource=example.com/gpu
`

// Pods get machines for the devices that they claim, by claim or under the name of a resource, and run once drivers have published these:
// later, in parts, fewer or more than was expected, or never.
func TestClaimsAreSimulated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		from     time.Duration // before, no pod runs; shortly after it all do that ever will
		launched int
		types    string
		waiting  int
	}{
		{fault: "", from: 0, launched: 3, types: "one"},
		{fault: "fault slices factor=1 lag=10m", from: 10 * time.Minute, launched: 3, types: "one"},
		{fault: "fault slices factor=1 parts=2 lag=4m", from: 8 * time.Minute, launched: 3, types: "one"},
		{fault: "fault slices driver=nic.example.com", from: 0, launched: 3, types: "one"},
		{fault: "fault slices type=one", from: 15 * time.Minute, launched: 6, types: "two"},
		{fault: "fault slices", from: 0, launched: 9, types: "one", waiting: 6}, // both types, and the first again after half an hour
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, claiming+"deployment web x4 cpu=1 mem=1Gi devices=(class=gpu)\ndeployment named x2 cpu=1 mem=1Gi example.com/gpu=1\n"+c.fault+"\n", 1)
			goOn(t, w, c.from)
			if n := len(w.waiting()); n != 6 {
				t.Errorf("%d pods wait after %v, want all 6", n, c.from)
			}
			goOn(t, w, 12*time.Minute)
			if n := len(w.waiting()); n != c.waiting {
				t.Errorf("%d pods wait after %v, want %d", n, c.from+12*time.Minute, c.waiting)
			}
			goOn(t, w, 48*time.Minute-c.from)
			if w.typesInUse() != c.types || w.meter.Launched != c.launched || len(w.waiting()) != c.waiting {
				t.Errorf("%s run, %d machines were started, removed %v, waiting %v; want %s, %d, %d", w.typesInUse(), w.meter.Launched, w.meter.Removed, w.waiting(), c.types, c.launched, c.waiting)
			}
			if n := len(w.cluster.devices.claims.list); n != 6-c.waiting/3 { // kube-scheduler makes those of two pods when it binds them
				t.Errorf("%d claims of 6 pods", n)
			}
		})
	}
}

// All pools of a driver come, and pods get the devices of each: nobody waits for a pool that does not come.
func TestSeveralPoolsOfADriverArePublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		waiting  int // after 10 minutes
		launched int // after 30
	}{
		{"", 0, 2},
		{"fault slices factor=1 parts=2 lag=7m", 6, 2},
		{"fault slices factor=2", 0, 2},
		{"fault slices count=1", 0, 3},
		{"fault slices", 6, 4}, // of both types
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, strings.ReplaceAll(claiming, "(driver=gpu.example.com count=2)", "(driver=gpu.example.com count=2) devices=(driver=gpu.example.com pool=b)")+
				"deployment web x6 cpu=100m mem=1Gi devices=(class=gpu)\n"+c.fault+"\n", 1)
			goOn(t, w, 10*time.Minute)
			if n := len(w.waiting()); n != c.waiting {
				t.Errorf("%d pods wait after 10 minutes, want %d", n, c.waiting)
			}
			goOn(t, w, 20*time.Minute)
			if w.meter.Launched != c.launched {
				t.Errorf("%d machines were started, want %d", w.meter.Launched, c.launched)
			}
		})
	}
}

// What is learned from nodes is published on new machines of their pool and type.
func TestWhatIsLearnedIsPublished(t *testing.T) {
	t.Parallel()
	w := worldOf(t, "now 2026-03-02T00:00:00Z\ncloud fixed30\npool general budget=0\ntype some cpu=4 mem=8Gi zones=a price=1\ndeviceclass gpu driver=gpu.example.com\n"+
		"node n pool=general type=some zone=a published=(driver=gpu.example.com pool=a count=2) published=(driver=gpu.example.com pool=b)\n"+
		"deployment web x6 cpu=100m mem=1Gi devices=(class=gpu)\n", 1)
	goOn(t, w, 10*time.Minute)
	if n := len(w.waiting()); n > 0 || w.meter.Launched != 1 {
		t.Errorf("%d pods wait, and %d machines were started, want 0 and 1: node n has three devices, and another would have as many", n, w.meter.Launched)
	}
}

// On machines of EC2's catalog drivers publish what the AWS provider expects of them, where a fault says how; without one they run nowhere.
func TestFaultsOfSlicesActOnTheCatalogOfEC2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault    string
		waiting  int // after a quarter of an hour
		launched int
	}{
		{fault: "", waiting: 4},
		{fault: "fault slices driver=dra.net factor=1", waiting: 4},
		{fault: "fault slices factor=1", launched: 1},
		{fault: "fault slices driver=gpu.nvidia.com factor=1 lag=20m", waiting: 4, launched: 1},
		{fault: "fault slices factor=0.5", launched: 2},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, "now 2026-03-02T00:00:00Z\ncloud fixed30\ncatalog aws\npool gpus type in (g6.12xlarge) capacity in (on-demand)\n"+
				"deviceclass gpu driver=gpu.nvidia.com\ndeployment web x4 cpu=1 mem=1Gi devices=(class=gpu memory=20Gi)\n"+c.fault+"\n", 1)
			goOn(t, w, 15*time.Minute)
			if n := len(w.waiting()); n != c.waiting || w.meter.Launched != c.launched {
				t.Errorf("%d pods wait and %d machines (%s) were started, want %d and %d", n, w.meter.Launched, w.typesInUse(), c.waiting, c.launched)
			}
		})
	}
}

// randomSlices are faults of what drivers publish, in the first four hours, that are over after six.
func randomSlices(random *rand.Rand) (lines []string) {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 1 + random.IntN(5) {
		lines = append(lines, "fault slices"+pick("", " factor=1", " factor=1", " factor=0.5", " factor=2", " count=1", " count=3")+
			pick("", " lag=3m", " lag=14m", " lag=16m", " lag=40m")+pick("", " parts=2", " parts=3")+pick("", " type=one", " type=two")+pick("", " share=50%")+
			fmt.Sprintf(" at=%dm for=%dm", random.IntN(2)*random.IntN(240), 5+random.IntN(115)))
	}
	return lines
}

// Whatever drivers publish, no pod is bound before its devices are there (the world watches that), and machines are not started again and
// again for the same pods; once drivers publish what is expected all pods run, and when these are gone, so is everything that costs money.
func TestLawDevicesThatDifferCostNothingForEver(t *testing.T) {
	t.Parallel()
	const pods = 7
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			lines := randomSlices(rand.New(rand.NewPCG(seed, 29)))
			text := claiming + "deployment web x3 cpu=1 mem=1Gi devices=(class=gpu)\ndeployment pair x2 cpu=1 mem=1Gi devices=(class=gpu count=2)\ndeployment named x2 cpu=1 mem=1Gi example.com/gpu=1\n" +
				strings.Join(lines, "\n") + "\n"
			w := worldOf(t, text, seed)
			goOn(t, w, 16*time.Hour) // what is remembered of a driver is tried again after eight hours at the latest
			if most := pods * (2 + len(lines) + int(math.Ceil(math.Log2(16*4)))); w.meter.Launched > most {
				t.Errorf("%d machines were started for %d pods, at most %d are right:\n%s", w.meter.Launched, pods, most, text)
			}
			if got := w.waiting(); got != nil {
				t.Errorf("drivers publish what is expected, and %v wait:\n%s", got, text)
			}
			for _, l := range w.workloads.list {
				l.want = 0
				w.pending.loads.add(l)
			}
			goOn(t, w, 2*time.Hour)
			if end := w.atEnd(t.Context()); end.Machines > 0 || len(w.cluster.claims.list) > 0 || len(w.cluster.seatList) > 0 || len(w.cluster.devices.claims.list) > 0 || len(w.cluster.base.ResourceSlices) > 0 {
				t.Errorf("there are no pods, and %d machines, %d nodes, %d claims for devices, %d slices\n%s", end.Machines, len(w.cluster.seatList), len(w.cluster.devices.claims.list), len(w.cluster.base.ResourceSlices), text)
			}
			t.Logf("%d machines, %v", w.meter.Launched, w.meter.Removed)
		})
	}
}

// For pods of one shape, of whose devices no driver publishes any, each type is tried again after twice the time.
func TestLawPurchasesForASilentDriverAreALogarithmOfTheTime(t *testing.T) {
	t.Parallel()
	w := worldOf(t, claiming+"deployment web x1 cpu=1 mem=1Gi devices=(class=gpu)\nfault slices\n", 1)
	seen := map[string]map[string]bool{}
	for hour := range 16 {
		for range 60 {
			goOn(t, w, time.Minute)
			for _, s := range w.cluster.seatList {
				kind := s.node.Labels[corev1.LabelInstanceTypeStable]
				if seen[kind] == nil {
					seen[kind] = map[string]bool{}
				}
				seen[kind][string(s.node.UID)] = true
			}
		}
		for kind, machines := range seen {
			if most := 2 + int(math.Log2(2*float64(hour+1))); len(machines) > most {
				t.Errorf("%d machines of type %s within %d hours, at most %d are right", len(machines), kind, hour+1, most)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("tried were the types %v", got)
	}
}
