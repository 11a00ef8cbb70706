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

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/simulated"
	"tenon.sh/scenario"
)

const troubled = `now 2026-03-02T00:00:00Z
cloud fixed30
pool general budget=100% consolidate-after=1m
type two  cpu=2 mem=4Gi zones=a,b price=0.05 attach=disk.example.com:25
type four cpu=4 mem=8Gi zones=a,b price=0.11 attach=disk.example.com:25
volume v1 claim=d1 driver=disk.example.com
volume v2 claim=d2 driver=disk.example.com
pod db owner=ReplicaSet/db cpu=1500m disk=d1,d2 age=0s
deployment web x4 cpu=1500m mem=1Gi apart=hostname arch in (amd64)
`

// worldOf is a world that nobody has looked at yet.
func worldOf(t *testing.T, text string, seed uint64) *World {
	t.Helper()
	file, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Seed: seed, For: time.Hour, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// disorder lists what is not as it should be once nothing goes wrong any more: claims without a node or with two, machines without a
// claim.
func (w *World) disorder(t *testing.T) (out []string) {
	t.Helper()
	nodes := map[string]int{}
	for _, s := range w.cluster.seatList {
		nodes[s.node.Spec.ProviderID]++
	}
	for _, c := range w.cluster.claims.list {
		if n := nodes[c.Status.ProviderID]; n != 1 || !v1.IsTrue(c, v1.ConditionInitialized) {
			out = append(out, fmt.Sprintf("claim %s has %d nodes", c.Name, n))
		}
	}
	if end := w.atEnd(t.Context()); end.Leaked > 0 || end.Machines != len(w.cluster.claims.list) || len(w.cluster.seatList) > len(w.cluster.claims.list) {
		out = append(out, fmt.Sprintf("%d machines, %d without a claim, %d nodes, %d claims", end.Machines, end.Leaked, len(w.cluster.seatList), len(w.cluster.claims.list)))
	}
	return out
}

// waiting names the pods that wait.
func (w *World) waiting() (out []string) {
	for _, u := range w.cluster.unbound.list {
		out = append(out, u.pod.Name)
	}
	return out
}

func (w *World) typesInUse() string {
	types := map[string]bool{}
	for _, s := range w.cluster.seatList {
		types[s.node.Labels[corev1.LabelInstanceTypeStable]] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(types)), ",")
}

// Each fault changes what becomes of the cluster within an hour, in the way that it says.
func TestEveryFaultOfMachinesIsSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, types string
		launched     int
		removed      map[string]int
		waiting      []string
	}{
		{fault: "", types: "two", launched: 5},
		{fault: "fault less resource=cpu factor=0.5 type=two", types: "four", launched: 9, removed: map[string]int{"empty": 5}},
		{fault: "fault less resource=mem factor=0.1 type=two", types: "four", launched: 9, removed: map[string]int{"empty": 4, "underutilized": 1}},
		{fault: "fault less resource=mem factor=0 type=two", types: "four", launched: 10, removed: map[string]int{"readiness_timeout": 5, "underutilized": 1}},
		{fault: "fault taint taint=example.com/agent:NoSchedule type=two", types: "four", launched: 9, removed: map[string]int{"empty": 5}},
		{fault: "fault label label=kubernetes.io/arch- type=two", types: "four", launched: 9, removed: map[string]int{"empty": 4, "underutilized": 1}},
		{fault: "fault label label=kubernetes.io/arch=arm64 type=two", types: "four", launched: 9, removed: map[string]int{"empty": 4, "underutilized": 1}},
		{fault: "fault attach driver=disk.example.com count=1", types: "two", launched: 5, removed: map[string]int{"empty": 1}, waiting: []string{"db"}},
		{fault: "fault attach driver=disk.example.com count=1 lag=5m", types: "two", launched: 5},
		{fault: "fault gone at=20m", types: "two", launched: 10, removed: map[string]int{"garbage_collected": 5}},
		{fault: "fault outage at=0s zone=a", types: "two", launched: 5},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, troubled+c.fault+"\n", 1)
			goOn(t, w, time.Hour)
			if got := w.disorder(t); got != nil {
				t.Error(got)
			}
			if w.typesInUse() != c.types || w.meter.Launched != c.launched || !maps.Equal(w.meter.Removed, c.removed) || !slices.Equal(w.waiting(), c.waiting) {
				t.Errorf("%s run, %d machines were started, removed %v, waiting %v; want %s, %d, %v, %v",
					w.typesInUse(), w.meter.Launched, w.meter.Removed, w.waiting(), c.types, c.launched, c.removed, c.waiting)
			}
		})
	}
}

func TestABadFaultOfAScenarioIsNamed(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"less resource=memroy":               `fault number 2: less: resource: "memroy" is none of cpu, memory`,
		"less resource=mem factor=2":         "fault number 2: less: factor: 2 is not from 0 to below 1",
		"label label=arch":                   `fault number 2: label: label: "arch" is no label`,
		"attach driver=disk.example.com":     "fault number 2: attach: count: 0 is not above 0",
		"attach driver=a.example count=-1":   "fault number 2: attach: count: -1 is not above 0",
		"flood":                              `fault number 2: what: "flood" is none of short`,
		"second share=150%":                  "fault number 2: second: share: 1.5 is not from 0 to 1",
		"taint taint=example.com/a:Whatever": `fault number 2: taint: taint: "example.com/a:Whatever" is no taint`,
	} {
		file, err := scenario.Parse("cloud bad-day\npool general\ntype two cpu=2 mem=4Gi zones=a price=0.05\nfault kill\nfault " + fault + "\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, For: time.Hour}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fault, err, want)
		}
	}
}

func TestALateKubeletIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := worldOf(t, troubled+"fault late-register lag=10m\n", 1)
	goOn(t, w, 10*time.Minute)
	if len(w.cluster.seatList) > 0 {
		t.Errorf("%d nodes after 10m; the machines take half a minute, and 10m by the fault", len(w.cluster.seatList))
	}
	goOn(t, w, time.Minute)
	if got := append(w.disorder(t), w.waiting()...); got != nil || w.meter.Launched != 5 {
		t.Errorf("%v; %d machines were started for 5 pods", got, w.meter.Launched)
	}
}

// The kubelet of a bare node has made it anew: the same machine gets what belongs on it once more, and takes pods.
func TestABareNodeIsTheSameMachinesNextNode(t *testing.T) {
	t.Parallel()
	w := worldOf(t, troubled+"fault bare at=20m\n", 1)
	goOn(t, w, 19*time.Minute)
	before := map[string]string{}
	for _, s := range w.cluster.seatList {
		before[s.node.Spec.ProviderID] = string(s.node.UID)
	}
	goOn(t, w, 41*time.Minute)
	if got := append(w.disorder(t), w.waiting()...); got != nil || len(w.cluster.seatList) != len(before) {
		t.Errorf("%v; %d nodes, want %d", got, len(w.cluster.seatList), len(before))
	}
	for _, s := range w.cluster.seatList {
		if uid := before[s.node.Spec.ProviderID]; uid == "" || uid == string(s.node.UID) {
			t.Errorf("node %s (UID %s) of machine %s had the UID %q before", s.node.Name, s.node.UID, s.node.Spec.ProviderID, uid)
		}
	}
}

// While pods run on a machine with two nodes, it stays; once the other node is deleted, as people are told to do, all is well.
func TestASecondNodeIsKeptClosed(t *testing.T) {
	t.Parallel()
	w := worldOf(t, troubled+"fault second at=20m share=50%\n", 3)
	goOn(t, w, time.Hour)
	var seconds []*seat
	for _, s := range w.cluster.seatList {
		if strings.HasSuffix(s.node.Name, simulated.SecondSuffix) {
			if seconds = append(seconds, s); len(s.units) > 0 || isOpen(s.node) {
				t.Errorf("node %s has %d pods, taints %v", s.node.Name, len(s.units), s.node.Spec.Taints)
			}
		}
	}
	if len(seconds) < 1 || len(seconds) > 4 || len(w.disorder(t)) != len(seconds)+1 {
		t.Fatalf("%d of 5 machines have a second node, want about half: %v", len(seconds), w.disorder(t))
	}
	for _, s := range seconds {
		w.nodes.remove(s)
	}
	goOn(t, w, time.Minute)
	if got := append(w.disorder(t), w.waiting()...); got != nil || w.meter.Launched != 5 {
		t.Errorf("%v; %d machines were started for 5 pods", got, w.meter.Launched)
	}
}

// randomFaults are some of all kinds, in the first five hours, that are over after seven.
func randomFaults(random *rand.Rand) (lines []string, instants int, attach bool) {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 4 + random.IntN(8) {
		for_ := fmt.Sprintf(" for=%dm", 5+random.IntN(115))
		if random.IntN(3) == 0 {
			for_ += " type=" + pick("t0", "t1", "t2")
		}
		line := pick(
			"less resource="+pick("cpu", "mem", "pods", "storage")+" factor="+pick("0", "0.01", "0.1", "0.5")+for_,
			"taint taint="+pick("example.com/agent:NoSchedule", "example.com/agent=x:NoExecute", "karpenter.sh/unregistered:NoExecute-")+for_,
			"label label=kubernetes.io/arch"+pick("-", "=arm64")+for_,
			"attach driver=disk.example.com count=1 lag="+pick("0s", "1m")+for_,
			"late-register lag="+pick("2m", "10m", "20m")+for_,
			"outage zone="+pick("a", "b")+for_, "short"+for_,
			"gone", "bare", "second", "kill",
		)
		if kind, _, more := strings.Cut(line, " "); !more {
			instants++
			line += " share=" + pick("30%", "60%", "100%")
		} else {
			attach = attach || kind == "attach"
		}
		lines = append(lines, fmt.Sprintf("fault %s at=%dm", line, random.IntN(2)*random.IntN(300)))
	}
	return lines, instants, attach
}

// Whatever goes wrong with machines and their nodes, the same pods do not have machines started for them again and again; when it is
// over they all run, on claims that have one node; and when they are gone, so is everything that costs money.
func TestLawRandomFaultsCostNothingForEver(t *testing.T) {
	t.Parallel()
	const pods, hours = 7, 9
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			lines, instants, attach := randomFaults(rand.New(rand.NewPCG(seed, 17)))
			text := `now 2026-03-02T00:00:00Z
cloud ` + []string{"fixed30", "aws-typical"}[seed%2] + `
pool general budget=100% consolidate-after=1m
type t0 cpu=2 mem=4Gi storage=20Gi zones=a,b price=0.05 attach=disk.example.com:25
type t1 cpu=4 mem=8Gi storage=20Gi zones=a,b price=0.11 attach=disk.example.com:25
type t2 cpu=8 mem=16Gi storage=20Gi zones=a,b price=0.23 attach=disk.example.com:25
volume v1 claim=d1 driver=disk.example.com
volume v2 claim=d2 driver=disk.example.com
deployment db x1 cpu=500m storage=1Gi disk=d1,d2
deployment web x6 cpu=1500m mem=1Gi storage=5Gi apart=hostname arch in (amd64)
` + strings.Join(lines, "\n") + "\n"
			w := worldOf(t, text, seed)
			goOn(t, w, hours*time.Hour)
			// Each pod may need a machine anew for each fault that ends machines, and the row of those that do not take it.
			most := pods * (1 + instants + 2 + int(math.Ceil(math.Log2(60))) + hours)
			if w.meter.Launched > most {
				t.Errorf("%d machines were started for %d pods, at most %d are right:\n%s", w.meter.Launched, pods, most, text)
			}
			for _, name := range w.waiting() {
				if !attach || !strings.HasPrefix(name, "db") { // new machines are thought to take as few volumes as those that are there
					t.Errorf("pod %s waits, two hours after the last fault has ended:\n%s", name, text)
				}
			}
			for _, l := range w.workloads.list {
				l.want = 0
				w.pending.loads.add(l)
			}
			goOn(t, w, 2*time.Hour)
			if end := w.atEnd(t.Context()); end.Machines > 0 || len(w.cluster.claims.list) > 0 || len(w.cluster.seatList) > 0 {
				t.Errorf("there are no pods, and %d machines, %d claims, %d nodes; kept: %v\n%s", end.Machines, len(w.cluster.claims.list), len(w.cluster.seatList), w.passes.kept, text)
			}
			t.Logf("%d machines, %v", w.meter.Launched, w.meter.Removed)
		})
	}
}

// Whatever zone or type is sold out, no machine is started that costs more than pods pay after the time that they have waited; and
// they do not wait for long once there are cheap ones again.
func TestLawPodsOfAWorldWaitBeforeTheyPayManyTimesThePrice(t *testing.T) {
	t.Parallel()
	const cheapest = 0.05
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 6))
			text := "now 2026-03-02T00:00:00Z\ncloud fixed30\npool general budget=100% consolidate-after=1m\n"
			prices, dear := map[string]float64{}, 3+random.IntN(6)
			for i := range 9 {
				name := fmt.Sprintf("t%d", i)
				prices[name] = cheapest * math.Exp2(float64(i))
				text += fmt.Sprintf("type %s cpu=%d mem=%dGi zones=a,b price=%g\n", name, 2<<i, 4<<i, prices[name])
				if i < dear {
					text += fmt.Sprintf("fault short type=%s zone=b for=%dm\n", name, 20+random.IntN(40))
				}
			}
			text += fmt.Sprintf("fault outage zone=a for=%dm\n", 20+random.IntN(40))
			text += "deployment web x5 cpu=1500m mem=1Gi apart=hostname\n"
			w := worldOf(t, text, seed)
			seen, dearest := map[string]bool{}, 0.0
			for range 6 * 60 {
				goOn(t, w, 10*time.Second)
				for _, c := range w.cluster.claims.list {
					if seen[c.Name] {
						continue
					}
					seen[c.Name] = true
					u, waits := w.cluster.unbound.get(kube.PlannedPods(c)[0])
					if !waits {
						continue // it replaces another
					}
					price, waited := math.Inf(1), c.CreationTimestamp.Sub(u.pod.CreationTimestamp.Time)
					for _, r := range c.Spec.Requirements {
						for _, name := range r.Values {
							if r.Key == corev1.LabelInstanceTypeStable {
								price = min(price, prices[name])
							}
						}
					}
					dearest = max(dearest, price)
					if most := 4 * cheapest * math.Exp2(waited.Minutes()/5); price > most*1.001 {
						t.Fatalf("claim %s costs %.3f after %v, at most %.3f is right:\n%s", c.Name, price, waited, most, text)
					}
				}
			}
			if got := append(w.waiting(), w.disorder(t)...); got != nil {
				t.Errorf("all is there again, and %v:\n%s", got, text)
			}
			t.Logf("%d claims, the dearest at %.3f", len(seen), dearest)
		})
	}
}
