package simulator_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// Forty pods come at 7 and go at 19 o'clock, as KEDA's cron scaler has them in the guide. The bill of the day is what a plan for all of
// them costs for these hours, and for the time in which machines boot: mornings and evenings add nothing. It is not compared with the
// bound, from which pods of a whole core are far at any hour: no machine has all of its cores for pods.
func TestTheBillFollowsOfficeHours(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("../examples/keda/office.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"start: 0 7 * * 1-5", "end: 0 19 * * 1-5", `desiredReplicas: "40"`, `cpu: "1"`, "memory: 2Gi", "consolidateAfter: 10s", `values: ["c", "m", "r"]`} {
		if !strings.Contains(string(manifest), line) {
			t.Errorf("the manifest of the guide has other hours, pods or machines than this test: %s is not there", line)
		}
	}
	c := config(t, `now 2026-03-02T00:00:00Z
cloud fixed30
catalog aws
pool office consolidate-after=10s budget=100% capacity in (on-demand) arch in (amd64) karpenter.k8s.aws/instance-category in (c,m,r)
deployment office x40 cpu=1 mem=2Gi day=0:0,6.999:0,7:40,18.999:40,19:0
`)
	c.BoundEvery, c.WarmUp = time.Hour, 0
	r := run(t, c)
	noon := r.Hours[12]
	plan := 12 * *noon.AnewPerHour
	boots := noon.CostPerHour * (30 * time.Second).Hours()
	t.Logf("the day costs %.2f USD: a plan for these pods %.2f for 12 hours, and %.2f while machines boot; the bound is %.2f", r.Cost, plan, boots, 12**noon.BoundPerHour)
	if r.Cost > 1.03*plan+boots {
		t.Errorf("the day costs %.2f USD, want %.2f at most", r.Cost, 1.03*plan+boots)
	}
	for i, h := range r.Hours {
		if night := i < 7 || i > 19; night && h.CostPerHour != 0 {
			t.Errorf("at %d o'clock %.4f USD an hour are paid for %.0f pods", i, h.CostPerHour, h.Pods)
		}
	}
	if r.Counts.Launched != int(math.Round(noon.Machines)) {
		t.Errorf("%d machines were started, of which %.0f were there at noon", r.Counts.Launched, noon.Machines)
	}
	checkEnd(t, "office", r)
}
