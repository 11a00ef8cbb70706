package simulator_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/simulator"
	podtrace "tenon.sh/trace"
)

const traceHeader = "namespace,pod,owner,arrival,departure,cpu,memory\n"

func traceOf(t *testing.T, text string) *podtrace.Trace {
	t.Helper()
	x, err := podtrace.Read(strings.NewReader(text), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func traced(t *testing.T, scenarioText, traceText string) simulator.Config {
	t.Helper()
	c := config(t, scenarioText)
	c.Trace, c.Audit = traceOf(t, traceText), false
	return c
}

const tracePool = `
now 2026-03-02T00:00:00Z
catalog kwok
cloud fixed30
pool general consolidate-after=1m budget=100% capacity in (on-demand)
`

// busyDay has pods of services that come by day, and Jobs by the hour.
func busyDay() string {
	var b strings.Builder
	b.WriteString(traceHeader)
	at := func(minute int) string {
		return time.Date(2026, 3, 2, 0, minute, 0, 0, time.UTC).Format(time.RFC3339)
	}
	for i := range 60 {
		from, to := at(0), ""
		if i >= 10 {
			from, to = at(360+5*i), at(1000+5*(i%17)+i)
		}
		fmt.Fprintf(&b, "shop,web-%d,ReplicaSet/web-%d,%s,%s,%dm,1Gi\n", i, i%3, from, to, 300+100*(i%5))
	}
	for i := range 40 {
		fmt.Fprintf(&b, "shop,job-%d,Job/job-%d,%s,%s,1,2Gi\n", i, i, at(30+30*i), at(40+30*i+i%20))
	}
	return b.String()
}

// The pods are there from their arrival to their departure, those of the first moment before it is measured.
func TestPodsOfATraceComeAndGo(t *testing.T) {
	t.Parallel()
	c := traced(t, tracePool, traceHeader+
		"a,old,ReplicaSet/x,2026-03-02T00:00:00Z,2026-03-02T04:00:00Z,1,1Gi\n"+
		"a,job,Job/y,2026-03-02T01:00:00Z,2026-03-02T03:00:00Z,1,1Gi\n"+
		"a,stays,,2026-03-02T02:00:00Z,,1,1Gi\n")
	c.For, c.Policy = 6*time.Hour, v1.WhenEmpty // a Job that is moved begins anew
	r := run(t, c)
	if want := time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC); !r.Begin.Time.Equal(want) {
		t.Errorf("measured from %s", r.Begin)
	}
	for hour, want := range []float64{1, 2, 3, 2, 1, 1} {
		if got := r.Hours[hour].Pods; math.Abs(got-want) > 0.05 {
			t.Errorf("hour %d: %v pods, not %v", hour, got, want)
		}
	}
	if r.Counts.Jobs != 1 || r.AtEnd.Pods != 1 || r.AtEnd.Waiting != 0 {
		t.Errorf("%d pods of jobs ended, at the end %+v", r.Counts.Jobs, r.AtEnd)
	}
}

// Every policy does the same work: a pod that is sent away comes again, until its time is over. The baseline fills machines and empties nodes
// one by one, so that its bill is between the bills of WhenEmpty and WhenEmptyOrUnderutilized.
func TestEveryPolicyDoesTheSameWork(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	trouble := tracePool + "fault kill at=12h share=50%\nfault reclaim at=15h share=50%\n"
	policies := []v1.ConsolidationPolicy{v1.WhenEmptyOrUnderutilized, simulator.Baseline, v1.WhenEmpty, v1.Balanced}
	bills := make([]float64, len(policies))
	t.Run("policies", func(t *testing.T) {
		for i, policy := range policies {
			t.Run(string(policy), func(t *testing.T) {
				t.Parallel()
				c := traced(t, trouble, busyDay())
				c.Policy = policy
				r := run(t, c)
				bills[i] = r.Cost
				checkEnd(t, string(policy), r)
				if r.Counts.Jobs != 40 || r.AtEnd.Pods+r.AtEnd.Waiting != 10 {
					t.Errorf("%d of 40 pods of jobs ended, %d of 10 pods are there at the end", r.Counts.Jobs, r.AtEnd.Pods+r.AtEnd.Waiting)
				}
				if evicted := r.Counts.Evictions; policy != v1.WhenEmpty && len(evicted) == 0 {
					t.Error("no pod was sent away: the trace tells nothing")
				}
				for hour, want := range map[int]float64{2: 10, 13: 50} {
					if got := r.Hours[hour].Pods; got < want*0.9 {
						t.Errorf("hour %d: %v pods ran, of %v and those of jobs", hour, got, want)
					}
				}
				if policy == simulator.Baseline && (r.Counts.Moves[string(v1.Underutilized)] == 0 || r.Policy != simulator.Baseline) {
					t.Errorf("the baseline moved %v", r.Counts.Moves)
				}
			})
		}
	})
	if !(bills[0] <= bills[1] && bills[1] < bills[2]) {
		t.Errorf("the bills of %v are %v", policies, bills)
	}
}

func TestTheBaselineKeepsBudgets(t *testing.T) {
	t.Parallel()
	c := traced(t, strings.Replace(tracePool, "budget=100%", "budget=0", 1), busyDay())
	c.Policy, c.For = simulator.Baseline, 20*time.Hour
	if r := run(t, c); r.Counts.Moves[string(v1.Underutilized)] != 0 {
		t.Errorf("under a budget of nothing the baseline moved %v", r.Counts.Moves)
	}
}

func TestTheSameTraceGivesTheSameResult(t *testing.T) {
	t.Parallel()
	c := traced(t, tracePool, busyDay())
	c.Policy, c.For = simulator.Baseline, 8*time.Hour
	if first := text(t, run(t, c)); text(t, run(t, c)) != first {
		t.Error("the same trace gave another result")
	}
}

func TestATraceRunsBesideWorkloads(t *testing.T) {
	t.Parallel()
	c := traced(t, tracePool+"deployment web x5 cpu=500m mem=1Gi\n", traceHeader+"a,b,,2026-03-02T00:00:00Z,,1,1Gi\n")
	c.For = 3 * time.Hour
	if r := run(t, c); r.AtEnd.Pods != 6 {
		t.Errorf("at the end %+v", r.AtEnd)
	}
}

// Labels, node selectors and tolerations of a trace count as those of other pods do.
func TestPodsOfATraceGoWhereTheyMay(t *testing.T) {
	t.Parallel()
	c := traced(t, tracePool+"pool special weight=5 taint=team:NoSchedule labels=tier:special capacity in (on-demand)\npdb held max=0\n",
		"pod,arrival,cpu,memory,selector,tolerations\na,2026-03-02T00:00:00Z,1,1Gi,tier=special,team:NoSchedule\nb,2026-03-02T00:00:00Z,1,1Gi,tier=special,\n")
	c.For = time.Hour
	if r := run(t, c); r.AtEnd.Pods != 1 || r.AtEnd.Waiting != 1 {
		t.Errorf("at the end %+v", r.AtEnd)
	}
}
