package lossgroup_test

import (
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// If prices are unknown, the cost of another zone is unknown too, so the list stays whole.
func TestListsOfUnknownPriceAreNotCut(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general capacity in (spot)", "type odd cpu=2 mem=8Gi zones=a,b spot=0.1", "pods web x2 cpu=1500m owner=Deployment")
	for name, c := range map[string]struct {
		s    *engine.Snapshot
		want int
	}{"known": {s, 1}, "unknown": {scenariotest.UnknownAt(s, "odd"), 2}} {
		plan := provisioning.Plan(c.s, engine.Options{}, nil)
		for _, l := range plan.Launches {
			if len(l.Offerings) != c.want {
				t.Errorf("%s: %d offerings are listed, want %d", name, len(l.Offerings), c.want)
			}
		}
		if len(plan.Launches) != 2 {
			t.Errorf("%s: %d launches", name, len(plan.Launches))
		}
	}
}

// Lists of spot machines are divided by zones, then by types, so that at most half of an owner's pods can be lost at once. That holds for owners
// with pods on several machines, and only if it costs little.
func TestWhoseMachinesListLess(t *testing.T) {
	t.Parallel()
	const zones, types = "type small cpu=2 mem=4Gi zones=a,b spot=0.03", "type other cpu=2 mem=4Gi zones=a spot=0.03"
	for _, c := range []struct {
		name  string
		lines []string
		opt   engine.Options
		want  string // the offerings of each machine
	}{
		{name: "an owner's two machines", lines: []string{zones, "pods web x2 cpu=1500m owner=Deployment"}, want: "small/a; small/b"},
		{name: "three machines, of which two are in one zone anyway", lines: []string{zones, "pods web x3 cpu=1500m owner=Deployment"}, want: "small/a; small/a small/b; small/b"},
		{name: "by type where there is one zone", lines: []string{types, "type small cpu=2 mem=4Gi zones=a spot=0.03", "pods web x2 cpu=1500m owner=Deployment"}, want: "other/a; small/a"},
		{name: "an owner's only machine", lines: []string{zones, "pods web x1 cpu=1500m owner=Deployment"}, want: "small/a small/b"},
		{name: "all pods on one machine", lines: []string{zones, "pods web x2 cpu=500m owner=Deployment"}, want: "small/a small/b"},
		{name: "two owners", lines: []string{zones, "pods web x1 cpu=1500m owner=Deployment", "pods db x1 cpu=1500m owner=Deployment"}, want: "small/a small/b; small/a small/b"},
		{name: "pods without an owner", lines: []string{zones, "pods web x2 cpu=1500m"}, want: "small/a small/b; small/a small/b"},
		{name: "pods that start together", lines: []string{zones, "gang train min=2", "pods train x2 cpu=1500m gang=train owner=Job"}, want: "small/a small/b; small/a small/b"},
		{name: "one that runs already", lines: []string{zones, "node n pool=general type=small zone=a capacity=spot", "pod web cpu=1500m node=n owner=Deployment/web", "pods web x1 cpu=1500m owner=Deployment"}, want: "small/b"},
		{name: "a zone that is much dearer", lines: []string{"type small cpu=2 mem=4Gi offer=(zone=a capacity=spot price=0.1) offer=(zone=b capacity=spot price=0.11)", "pods web x2 cpu=1500m owner=Deployment"}, want: "small/a small/b; small/a small/b"},
		{name: "a zone that is no dearer than that", lines: []string{"type small cpu=2 mem=4Gi offer=(zone=a capacity=spot price=0.1) offer=(zone=b capacity=spot price=0.11)", "pods web x2 cpu=1500m owner=Deployment"}, opt: engine.Options{SpotSpreadShare: 0.1}, want: "small/a; small/b"},
		{name: "nothing is to be done", lines: []string{zones, "pods web x2 cpu=1500m owner=Deployment"}, opt: engine.Options{SpotSpreadShare: -1}, want: "small/a small/b; small/a small/b"},
	} {
		var machines []string
		for _, l := range provisioning.Plan(scenariotest.Cluster(t, append([]string{"pool general capacity in (spot)"}, c.lines...)...), c.opt, nil).Launches {
			var list []string
			for _, o := range l.Offerings {
				list = append(list, o.InstanceType+"/"+o.Zone)
			}
			slices.Sort(list)
			machines = append(machines, strings.Join(list, " "))
		}
		slices.Sort(machines)
		if got := strings.Join(machines, "; "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
