package simulator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/scenario"
	"tenon.sh/simulator"
)

// shop is a cluster small enough for tests that has everything in it.
const shop = `
now 2026-03-02T00:00:00Z
catalog kwok
pool general consolidate-after=1m budget=20% capacity in (spot,on-demand)
deployment web x40 cpu=500m mem=1Gi day=0:5,8:40,20:10 weekend=50% noise=5% rollout="0 10 * * *" spread=(zone soft)
deployment api x12 cpu=1 mem=2Gi day=0:4,9:12,18:12,22:4
deployment db x3 stateful cpu=2 mem=8Gi apart=hostname rollout="0 6 * * 3"
pdb web max=25%
pdb db max=1
cronjob report x10 schedule="0 * * * *" runs=10m cpu=1 mem=1Gi
daemonset agent cpu=50m mem=64Mi tolerate=*
`

func config(t *testing.T, text string) simulator.Config {
	t.Helper()
	file, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return simulator.Config{
		Snapshot: file.Snapshot, Course: file.Course, Options: file.Options, Seed: 1, WarmUp: 30 * time.Minute, For: 24 * time.Hour, BoundEvery: 6 * time.Hour, Audit: true,
	}
}

func run(t *testing.T, c simulator.Config) *simulator.Result {
	t.Helper()
	w, err := simulator.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *simulator.Result) string {
	t.Helper()
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	t.Parallel()
	c := config(t, shop)
	c.For = 3 * time.Hour
	first := text(t, run(t, c))
	if second := text(t, run(t, c)); second != first {
		t.Errorf("the same configuration gave two results:\n%s\n%s", first, second)
	}
	c.Seed = 2
	if other := text(t, run(t, c)); other == first {
		t.Error("another seed gave the same result")
	}
}

func TestTheBillFollowsTheDay(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	c := config(t, shop)
	c.BoundEvery, c.For = time.Hour, 14*time.Hour
	r := run(t, c)
	night, day := r.Hours[3], r.Hours[12]
	if night.Pods >= day.Pods || night.CostPerHour >= day.CostPerHour {
		t.Errorf("at night %+v, by day %+v", night, day)
	}
	if r.Counts.Jobs < 130 || r.Counts.Jobs > 150 {
		t.Errorf("%d pods of jobs ended; 14 runs of 10 were due", r.Counts.Jobs)
	}
	for i, h := range r.Hours {
		if h.BoundPerHour == nil || h.AnewPerHour == nil {
			t.Errorf("%s: hour %d: bound %v, made anew %v", h.Begin, i, h.BoundPerHour, h.AnewPerHour)
		} else if *h.BoundPerHour > h.CostPerHour*1.5 || *h.AnewPerHour < *h.BoundPerHour {
			t.Errorf("%s: paid %v, but the bound is %v, and made anew %v", h.Begin, h.CostPerHour, *h.BoundPerHour, *h.AnewPerHour)
		}
	}
	if r.AnewGap == 0 || r.AnewGap >= r.Gap {
		t.Errorf("%v above plans made anew, %v above the bound", r.AnewGap, r.Gap)
	}
}

// checkEnd: no pod waits that could run, no machine is left behind.
func checkEnd(t *testing.T, name string, r *simulator.Result) {
	t.Helper()
	if r.AtEnd.Idle > 0 {
		t.Errorf("%s: at the end %d pods wait although they could run", name, r.AtEnd.Idle)
	}
	if r.AtEnd.Leaked > 0 {
		t.Errorf("%s: at the end %d machines have no claim", name, r.AtEnd.Leaked)
	}
}

// drawn is a small cluster that follows from the seed: a few pools, workloads of all kinds, and some trouble.
func drawn(seed uint64, changes bool) string {
	d := rand.New(rand.NewPCG(seed, 7))
	pick := func(of ...string) string { return of[d.IntN(len(of))] }
	var b strings.Builder
	fmt.Fprintf(&b, "now 2026-03-0%dT00:00:00Z\ncatalog kwok\n", 1+d.IntN(7))
	fmt.Fprintf(&b, "cloud %s\n", pick("instant", "fixed30", "aws-typical", "aws-tight", "azure-typical"))
	for i := range 1 + d.IntN(2) {
		fmt.Fprintf(&b, "pool p%d weight=%d consolidate-after=%s budget=%s capacity in (%s)\n", i, 1+d.IntN(3), pick("0s", "30s", "5m"), pick("1", "10%", "50%", "100%"),
			pick("spot", "on-demand", "spot,on-demand"))
	}
	for i := range 3 + d.IntN(4) {
		n := 1 + d.IntN(25)
		fmt.Fprintf(&b, "deployment w%d x%d cpu=%s mem=%s%s", i, n, pick("100m", "250m", "500m", "1", "2"), pick("128Mi", "512Mi", "1Gi", "4Gi"),
			pick("", "", " spread=zone", " spread=(hostname soft)", " stateful apart=hostname", " together=zone"))
		if changes {
			fmt.Fprintf(&b, " day=0:%d,8:%d,20:%d noise=%d%%%s", d.IntN(n+1), n, d.IntN(n+1), d.IntN(20), pick("", ` rollout="0 */6 * * *"`))
		}
		b.WriteString("\n")
		if d.IntN(2) == 0 {
			fmt.Fprintf(&b, "pdb w%d max=%s\n", i, pick("1", "25%", "50%"))
		}
	}
	if changes {
		fmt.Fprintf(&b, "cronjob jobs x%d schedule=\"*/%d * * * *\" runs=%s cpu=500m mem=512Mi\n", 1+d.IntN(20), 15+d.IntN(40), pick("2m", "20m"))
	}
	fmt.Fprintf(&b, "daemonset agent cpu=%s tolerate=*\n", pick("10m", "100m"))
	fmt.Fprintf(&b, "fault short at=%dh for=%dh family=%s\n", 1+d.IntN(8), 1+d.IntN(6), pick("c", "m", "s"))
	fmt.Fprintf(&b, "fault kill at=%dh capacity=%s zone=%s\n", 2+d.IntN(6), pick("spot", "on-demand"), pick("test-zone-a", "test-zone-b"))
	fmt.Fprintf(&b, "fault never-register at=%dh count=2\n", 3+d.IntN(6))
	return b.String()
}

// Every seed is a world of its own: budgets are kept at all times, and when it ends nothing is left undone.
func TestDrawnWorldsKeepTheirLaws(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Few(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := config(t, drawn(seed, true))
			c.Seed, c.For = seed, 20*time.Hour
			checkEnd(t, drawn(seed, true), run(t, c))
		})
	}
}

// On a world in which no workload changes the moves are few, and there comes a time after which there are none, even where
// the cheapest types are sold out.
func TestOnAClosedWorldMovesEnd(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			world := drawn(seed, false)
			world = strings.NewReplacer("cloud aws-typical", "cloud fixed30", "cloud aws-tight", "cloud fixed30", "cloud azure-typical", "cloud fixed30").Replace(world)
			c := config(t, world)
			c.Seed, c.Policy = seed, v1.WhenEmptyOrUnderutilized
			moves := func(hours int) (n, machines int) {
				c.For = time.Duration(hours) * time.Hour
				r := run(t, c)
				checkEnd(t, world, r)
				for _, m := range r.Counts.Moves {
					n += m
				}
				return n, r.AtEnd.Machines
			}
			// All trouble is over after 14 hours; six hours later the world should have come to rest.
			early, machines := moves(24)
			late, _ := moves(48)
			if late != early {
				t.Errorf("%d moves in the first day, %d in two:\n%s", early, late, world)
			}
			if most := 4*machines + 8; early > most {
				t.Errorf("%d moves for %d machines:\n%s", early, machines, world)
			}
		})
	}
}

func TestAnySnapshotCanBeSimulated(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := scenario.Random(seed, scenario.Size{Topology: seed%2 == 0})
			w, err := simulator.New(simulator.Config{Snapshot: s, Seed: seed, For: 6 * time.Hour, Profile: "fixed30"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkEnd(t, fmt.Sprintf("random scenario %d", seed), r)
		})
	}
}

func TestPoliciesAreComparedOnTheSameWorld(t *testing.T) {
	t.Parallel()
	c := config(t, shop)
	c.For = time.Hour
	for _, policy := range []v1.ConsolidationPolicy{v1.WhenEmpty, v1.Balanced} {
		c.Policy = policy
		if r := run(t, c); r.Policy != policy {
			t.Errorf("asked for %s, got %s", policy, r.Policy)
		}
	}
	if c.Snapshot.NodePools[0].Spec.Disruption.ConsolidationPolicy == v1.Balanced {
		t.Error("the caller's pool was changed")
	}
}

func TestWhatCannotBeSimulatedIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		change func(*simulator.Config)
		want   string
	}{
		"a cron line that is none":   {"catalog kwok\npool p\ndeployment web x1 cpu=1 rollout=whenever", nil, `workload default/web: rollout "whenever" is no cron line`},
		"an unknown cloud":           {"catalog kwok\npool p\ncloud heaven", nil, `there is no cloud profile "heaven"`},
		"an unknown fault":           {"catalog kwok\npool p\nfault flood at=1h", nil, `what: "flood" is none of`},
		"no time":                    {"catalog kwok\npool p", func(c *simulator.Config) { c.For = 0 }, "it needs a cluster and a time"},
		"two types of the same name": {"catalog kwok\ncatalog kwok\npool p", nil, "is twice in its catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, c.text)
			if c.change != nil {
				c.change(&cfg)
			}
			if _, err := simulator.New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestASimulationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w, err := simulator.New(config(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := w.Run(ctx); err == nil {
		t.Error("it went on")
	}
}

// A cluster without anything to buy, or without anything to run, is no trouble either.
func TestEmptyWorlds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "pool p", "catalog kwok\npool p", "catalog kwok\npool p capacity in (nothing)\ndeployment web x3 cpu=1", "deployment web x3 cpu=1"} {
		r := run(t, config(t, text))
		if r.AtEnd.Machines != 0 || r.AtEnd.Idle != 0 {
			t.Errorf("%q: %+v", text, r.AtEnd)
		}
	}
}

func TestPodsDoNotWaitForMachinesThatNeverCome(t *testing.T) {
	t.Parallel()
	c := config(t, `now 2026-03-02T00:00:00Z
catalog kwok
cloud fixed30
pool general capacity in (on-demand)
deployment web x40 cpu=1 mem=1Gi apart=hostname
cronjob late x1 schedule="0 2 * * *" runs=20m cpu=3 mem=1Gi
fault never-register at=89m count=1
`)
	c.For = 3 * time.Hour
	r := run(t, c)
	if r.Counts.Removed["registration_timeout"] != 1 {
		t.Errorf("removed %v: one machine should not have registered", r.Counts.Removed)
	}
	if most := time.Duration(r.Waited.Most * float64(time.Second)); most < 6*time.Minute || most > 10*time.Minute {
		t.Errorf("a pod waited for %v: its machine, the first of its type, was late after 6m, another one takes half a minute", most)
	}
	checkEnd(t, "never-register", r)
}

// The room of a buffer moves to where it costs less once, and then nothing happens for two days.
func TestRoomOnAnIdleClusterMovesOnceAtMost(t *testing.T) {
	t.Parallel()
	c := config(t, `now 2026-03-02T00:00:00Z
catalog kwok
cloud fixed30
pool general consolidate-after=1m capacity in (spot,on-demand)
node dear pool=general type=m-48x-amd64-linux zone=test-zone-a capacity=on-demand quiet=10m
buffer room replicas=6 cpu=900m mem=1Gi
`)
	c.WarmUp, c.For = 0, 48*time.Hour
	r := run(t, c)
	if n := r.Counts.Moves["Underutilized"]; n != 1 || len(r.Counts.Moves) != 1 || r.Counts.Launched > 2 {
		t.Errorf("%d machines were started, and there were these disruptions: %v; want one", r.Counts.Launched, r.Counts.Moves)
	}
}

// Where no machine joins the cluster, ever fewer are started: after half a day one an hour, not one every quarter of an hour.
func TestMachinesThatNeverRegisterAreNotBoughtForEver(t *testing.T) {
	t.Parallel()
	c := config(t, `now 2026-03-02T00:00:00Z
catalog kwok
cloud aws-typical
pool general capacity in (on-demand)
deployment web x1 cpu=1 mem=1Gi
fault never-register at=0s for=48h count=1000
`)
	c.WarmUp, c.For = 0, 24*time.Hour
	if r := run(t, c); r.Counts.Launched < 16 || r.Counts.Launched > 28 {
		t.Errorf("%d machines were started in a day", r.Counts.Launched)
	}
}

// A machine that was starting already when the world began is waited for as long as one that starts later, and not for ever.
func TestPodsDoNotWaitForAMachineOfBeforeThatNeverComes(t *testing.T) {
	t.Parallel()
	c := config(t, `now 2026-03-02T00:00:00Z
cloud fixed30
pool general
type two  cpu=2 mem=4Gi price=0.05
type four cpu=4 mem=8Gi price=0.11
node n1 pool=general type=two zone=a
pod a node=n1 cpu=1500m owner=Deployment
claim lost pool=general type=four zone=a age=0s
pod waits cpu=1500m age=0s
fault kill at=10s machine=lost
`)
	c.WarmUp, c.For = 0, time.Hour
	r := run(t, c)
	if most := time.Duration(r.Waited.Most * float64(time.Second)); r.Counts.Launched != 1 || most < 6*time.Minute || most > 7*time.Minute {
		t.Errorf("%d machines were started, and the pod waited for %v: the machine, the first of its type, was late after 6m, another one takes half a minute",
			r.Counts.Launched, most)
	}
	checkEnd(t, "lost", r)
}

// While few pods leave nodes there is little to gain, and nodes are looked at a third as often.
func TestNodesAreLookedAtMoreOftenTheMorePodsLeave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ leave, least, most int }{{1, 90, 110}, {5, 270, 300}} {
		world := config(t, fmt.Sprintf(`now 2026-03-02T00:00:00Z
pool general
type big cpu=64 mem=128Gi price=3
node only pool=general type=big zone=a
deployment web x298 cpu=100m mem=100Mi
cronjob tick x%d schedule="*/5 * * * *" runs=2m cpu=100m mem=100Mi
`, c.leave))
		world.DisruptEvery = simulator.UsualDisruptEvery
		r := run(t, world)
		if r.Counts.Passes < c.least || r.Counts.Passes > c.most {
			t.Errorf("%d of 300 pods leave in five minutes: %d passes in a day, want %d to %d", c.leave, r.Counts.Passes, c.least, c.most)
		}
	}
}

// Pods come and find nodes at full moments only, however odd the times are that machines take to boot.
func TestTheWorldsTimeGoesInMoments(t *testing.T) {
	t.Parallel()
	c := config(t, shop)
	c.For = 3 * time.Hour
	r := run(t, c)
	if r.Waited.Most == 0 {
		t.Fatal("no pod has waited")
	}
	for _, waited := range []float64{r.Waited.Median, r.Waited.P99, r.Waited.Most} {
		if math.Mod(waited, simulator.Moment.Seconds()) != 0 {
			t.Errorf("a pod waited %v s, which is no multiple of %v", waited, simulator.Moment)
		}
	}
}

// What interruptions are expected to cost decides, and is on no bill; nor does it raise what the pods cost at least.
func TestWhatInterruptionsCostIsOnNoBill(t *testing.T) {
	t.Parallel()
	const cluster = `
now 2026-03-02T00:00:00Z
cloud instant
pool batch capacity in (spot)
type four cpu=4 mem=8Gi spot=0.06 zones=a
deployment web x10 cpu=900m
`
	of := func(overlay string) *simulator.Result {
		c := config(t, cluster+overlay)
		c.For = 2 * time.Hour
		return run(t, c)
	}
	plain, risky := of(""), of("overlay risk interruptions=1 interruption-cost=0.25\n")
	if plain.Cost == 0 || risky.Cost != plain.Cost || risky.Gap != plain.Gap {
		t.Errorf("the bill is %v and %v, above the bound by %v and %v", plain.Cost, risky.Cost, plain.Gap, risky.Gap)
	}
}
