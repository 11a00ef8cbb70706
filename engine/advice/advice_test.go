package advice_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/advice"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

func cluster(t *testing.T, lines ...string) *engine.Snapshot {
	t.Helper()
	f, err := scenario.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Snapshot
}

func advise(s *engine.Snapshot, opt engine.Options) *advice.Advice {
	return advice.New(s, opt, provisioning.Plan(s, opt, nil))
}

// said returns suggestions as short texts.
func said(a *advice.Advice) string {
	var out []string
	for _, x := range a.Suggestions {
		out = append(out, fmt.Sprintf("%s %s [%s] [%s] -%.0f%%", x.Kind, x.Object, strings.Join(x.Keys, " "), strings.Join(x.Values, " "), 100*x.Saving))
	}
	return strings.Join(out, "\n")
}

func TestWhatWouldMakeItCheaper(t *testing.T) {
	t.Parallel()
	const (
		small = "type small cpu=2 mem=8Gi price=0.10"
		arm   = "type arm cpu=2 mem=8Gi price=0.08 arch=arm64"
	)
	for name, c := range map[string]struct {
		cluster []string
		want    string
	}{
		"another architecture": {[]string{"pool p arch in (amd64)", small, arm, "pod web cpu=1 mem=4Gi"},
			"Architecture NodePool p [kubernetes.io/arch] [arm64] -20%"},
		"not where the pod asks for its own": {[]string{"pool p arch in (amd64)", small, arm, "pod web cpu=1 mem=4Gi arch in (amd64)"}, ""},
		"spot": {[]string{"pool p capacity in (on-demand)", small + " spot=0.03", "pod web cpu=1 mem=4Gi"},
			"CapacityType NodePool p [karpenter.sh/capacity-type] [spot] -70%"},
		"spot, but for the share on demand": {[]string{"pool p capacity in (on-demand)", small + " spot=0.03", "pods web x2 cpu=1500m owner=Deployment on-demand-share=1"},
			"CapacityType NodePool p [karpenter.sh/capacity-type] [spot] -35%"},
		"no spot for what may not be disrupted": {[]string{"pool p capacity in (on-demand)", small + " spot=0.03", "pod web cpu=1 mem=4Gi do-not-disrupt"}, ""},
		"a type that is left out": {[]string{"pool p type notin (cheap)", small, "type cheap cpu=2 mem=8Gi price=0.05", "pod web cpu=1 mem=4Gi"},
			"InstanceTypes NodePool p [node.kubernetes.io/instance-type] [] -50%"},
		"nothing that saves less than 1 %": {[]string{"pool p type notin (cheap)", small, "type cheap cpu=2 mem=8Gi price=0.0995", "pod web cpu=1 mem=4Gi"}, ""},
		"nothing by which a pod has no place: two machines of the cheaper type are beyond the limit": {[]string{
			"pool p arch in (amd64) limits=cpu:4", "type small cpu=2 price=0.10", "type arm cpu=4 price=0.05 arch=arm64", "pods web x2 cpu=1 apart=hostname"}, ""},
		"nothing that is sold out": {[]string{"pool p arch in (amd64)", small, arm + " sold-out", "pod web cpu=1 mem=4Gi"}, ""},
		"a weight": {[]string{"pool dear weight=10 type in (small)", "pool other type in (cheap)", small, "type cheap cpu=2 mem=8Gi price=0.05", "pod web cpu=1 mem=4Gi"},
			"InstanceTypes NodePool dear [node.kubernetes.io/instance-type] [] -50%\nWeight NodePool dear [] [] -50%"},
		"limits": {[]string{"pool cheap limits=cpu:1 type in (cheap)", "pool other type in (small)", small, "type cheap cpu=2 mem=8Gi price=0.05", "pod web cpu=1 mem=4Gi"},
			"InstanceTypes NodePool other [node.kubernetes.io/instance-type] [] -50%\nLimits NodePool cheap [] [] -50%"},
		"zones": {[]string{"pool p zone in (a)", "type small cpu=2 mem=8Gi zones=a offer=(zone=b capacity=on-demand price=0.05) price=0.10", "pod web cpu=1 mem=4Gi"},
			"Zones NodePool p [topology.kubernetes.io/zone] [b] -50%"},
		"a spread": {[]string{"pool p", "type big cpu=8 mem=32Gi price=0.40 zones=a,b", "pods web x2 cpu=2 mem=8Gi spread=zone"},
			"Spread Pod default/web [topology.kubernetes.io/zone] [] -50%"},
		"a preference": {[]string{"pool p", "type big cpu=8 mem=32Gi price=0.40 zones=a,b", "pods web x2 cpu=2 mem=8Gi spread=(zone soft)"},
			"Preferences --preference-policy [] [Ignore] -50%"},
		"requests": {[]string{"pool p", "type small cpu=2 mem=8Gi price=0.10", "pods web x4 cpu=500m mem=7Gi"},
			"Requests Pod default/web [memory] [2Gi] -75%"},
		"requests in proportion": {[]string{"pool p", "type small cpu=2 mem=8Gi price=0.10", "pods web x4 cpu=1500m mem=7Gi"}, ""},
	} {
		s := cluster(t, c.cluster...)
		a := advise(s, engine.Options{})
		if got := said(a); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
		for _, x := range a.Suggestions {
			if x.Kind == advice.Architecture && !strings.Contains(x.Caution, "images") {
				t.Errorf("%s: nothing is said about images: %q", name, x.Caution)
			}
		}
		if len(a.Launches) == 0 || !strings.Contains(a.Launches[0].Why, "chosen from") {
			t.Errorf("%s: it does not say why: %v", name, a.Launches)
		}
	}
}

// Each suggestion states its consequence for pods, whatever it changes.
func TestWhatPodsMayNotBearIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster []string
		kind    advice.Kind
		want    string
	}{
		"a family of another architecture": {[]string{"pool p type in (small)", "type small cpu=2 mem=8Gi price=0.10", "type arm cpu=2 mem=8Gi price=0.05 arch=arm64", "pod web cpu=1 mem=4Gi"},
			advice.InstanceTypes, "are built for arm64"},
		"a family": {[]string{"pool p type in (small)", "type small cpu=2 mem=8Gi price=0.10", "type cheap cpu=2 mem=8Gi price=0.05", "pod web cpu=1 mem=4Gi"},
			advice.InstanceTypes, "its make, its disks and the model of its devices"},
		"a weight before a pool of spot machines": {[]string{"pool dear weight=10 capacity in (on-demand)", "pool spot", "type small cpu=2 mem=8Gi price=0.10 spot=0.03", "pod web cpu=1 mem=4Gi"},
			advice.Weight, "take spot machines away"},
		"less than the limit": {[]string{"pool p", "type small cpu=2 mem=8Gi price=0.10", "pods web x4 cpu=500m mem=7Gi limits=memory:7Gi"},
			advice.Requests, "Guaranteed"},
	} {
		at := slices.IndexFunc(advise(cluster(t, c.cluster...), engine.Options{}).Suggestions, func(x advice.Suggestion) bool { return x.Kind == c.kind })
		if at < 0 {
			t.Errorf("%s: not suggested", name)
			continue
		}
		if x := advise(cluster(t, c.cluster...), engine.Options{}).Suggestions[at]; !strings.Contains(x.Caution, c.want) {
			t.Errorf("%s: %q", name, x.Caution)
		}
	}
}

// A change of a workload changes all of its waiting pods, including pods with a place on a node.
func TestASuggestionIsAboutAllWaitingPodsOfAWorkload(t *testing.T) {
	t.Parallel()
	s := cluster(t, "pool p", "type small cpu=2 mem=8Gi price=0.10", "node n pool=p type=small zone=a", "pods web x5 cpu=500m mem=7Gi")
	a := advise(s, engine.Options{})
	if got, want := said(a), "Requests Pod default/web [memory] [2Gi] -75%"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A suggestion names the object that a person would change: the Deployment, not its ReplicaSet.
func TestSuggestionsNameWhatAPersonChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ owner, hash, want string }{
		{"ReplicaSet/web-5d4f", "5d4f", "Deployment default/web"},
		{"ReplicaSet/web-5d4f", "", "ReplicaSet default/web-5d4f"},
		{"ReplicaSet/web", "5d4f", "ReplicaSet default/web"},
		{"StatefulSet/web-5d4f", "5d4f", "StatefulSet default/web-5d4f"},
	} {
		labels := ""
		if c.hash != "" {
			labels = " labels=pod-template-hash:" + c.hash
		}
		a := advise(cluster(t, "pool p", "type small cpu=2 mem=8Gi price=0.10", "pods web x4 cpu=500m mem=7Gi owner="+c.owner+labels), engine.Options{})
		if got, want := said(a), "Requests "+c.want+" [memory] [2Gi] -75%"; got != want {
			t.Errorf("pods of %s: got %s, want %s", c.owner, got, want)
		}
	}
}

// If the search is stopped, the advice does not contain trials that were not completed.
func TestWhatWasStoppedWasNotTried(t *testing.T) {
	t.Parallel()
	s := cluster(t, "pool p arch in (amd64) capacity in (on-demand)", "type small cpu=2 mem=8Gi price=0.10 spot=0.03", "type arm cpu=2 mem=8Gi price=0.08 arch=arm64", "pod web cpu=1 mem=4Gi")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if a := advice.New(s, engine.Options{Stop: func() bool { return true }}, plan); a.Tried != 0 || a.Untried != 2 || len(a.Suggestions) > 0 {
		t.Errorf("%+v", a)
	}
}

// The possible cost of pods that nothing can run is no part of a comparison.
func TestRefusedPodsAreOnNeitherSide(t *testing.T) {
	t.Parallel()
	a := advise(cluster(t, "pool p arch in (amd64)", "type small cpu=2 mem=8Gi price=0.10", "type arm cpu=16 mem=64Gi price=0.08 arch=arm64", "pod web cpu=1", "pod large cpu=8"), engine.Options{})
	if got, want := said(a), "Architecture NodePool p [kubernetes.io/arch] [arm64] -20%"; got != want || a.PerHour != 0.10 {
		t.Errorf("of %v got\n%s\nwant\n%s", a.PerHour, got, want)
	}
	for _, lines := range [][]string{{"pool p"}, {"pool p", "type t cpu=1 price=1", "pod web cpu=2"}} {
		if a := advise(cluster(t, lines...), engine.Options{}); len(a.Suggestions) > 0 || a.PerHour != 0 {
			t.Errorf("%v: %v", lines, a)
		}
	}
}

func TestTheWorkIsBounded(t *testing.T) {
	t.Parallel()
	lines := []string{"type small cpu=2 mem=8Gi price=0.10 spot=0.05", "type arm cpu=2 mem=8Gi price=0.08 arch=arm64 spot=0.01", "pods web x20 cpu=1"}
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("pool p%d arch in (amd64) capacity in (on-demand) limits=cpu:%d", i, 4+i))
	}
	a := advise(cluster(t, lines...), engine.Options{Effort: -1})
	if a.Tried != advice.MostTries || a.Untried != 3*20-advice.MostTries {
		t.Errorf("%d plans tried, %d not", a.Tried, a.Untried)
	}
}

// Workloads have their trials, however many pools there are.
func TestPoolsLeaveTriesForWorkloads(t *testing.T) {
	t.Parallel()
	lines := []string{"type small cpu=2 mem=8Gi price=0.10 spot=0.099", "type arm cpu=2 mem=8Gi price=0.10 arch=arm64 spot=0.099"}
	for i := range 12 {
		lines = append(lines, fmt.Sprintf("pool p%d arch in (amd64) capacity in (on-demand) labels=team:t%d", i, i), fmt.Sprintf("pods web%d x4 cpu=500m mem=7Gi team in (t%d)", i, i))
	}
	if got := said(advise(cluster(t, lines...), engine.Options{Effort: -1})); !strings.Contains(got, "Requests") {
		t.Errorf("got %s", got)
	}
}

// If a suggestion is followed, the bill is as the suggestion states, for the same pods. The input objects do not change.
func TestLawASuggestionThatIsFollowedGivesItsBill(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range enginetest.Draws(100) {
		s := scenario.Random(seed, scenario.Size{Topology: seed%2 == 1})
		opt := engine.Options{Effort: 2000}
		before := asJSON(t, s)
		a := advise(s, opt)
		if asJSON(t, s) != before {
			t.Fatalf("seed %d: the snapshot has changed", seed)
		}
		if asJSON(t, a) != asJSON(t, advise(s, opt)) {
			t.Errorf("seed %d: another answer the second time", seed)
		}
		refused := map[engine.PodID]bool{}
		for _, u := range provisioning.Plan(s, opt, nil).Unplaced {
			refused[u.Pod] = true
		}
		same := *s
		same.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(p *corev1.Pod) bool { return refused[kube.PodID(p)] })
		last := math.Inf(1)
		for _, x := range a.Suggestions {
			found++
			other, otherOpt := followed(t, &same, opt, x)
			plan := provisioning.Plan(other, otherOpt, nil)
			if math.Abs(plan.Cost.LaunchesPerHour-x.PerHour) > 1e-9 || len(plan.Unplaced) > 0 {
				t.Errorf("seed %d: %s: %s costs %v with %d pods refused, it says %v", seed, x.Object, x.Change, plan.Cost.LaunchesPerHour, len(plan.Unplaced), x.PerHour)
			}
			if math.Abs(a.PerHour-x.PerHour-x.SavingPerHour) > 1e-9 || x.Saving < 0.01 || x.SavingPerHour > last {
				t.Errorf("seed %d: %+v of %v, after one that saves %v", seed, x, a.PerHour, last)
			}
			last = x.SavingPerHour
		}
		if a.Tried > advice.MostTries {
			t.Errorf("seed %d: %d plans", seed, a.Tried)
		}
	}
	if found == 0 {
		t.Error("no cluster had anything to suggest")
	}
}

// followed applies the suggestion, as its reader would.
func followed(t *testing.T, s *engine.Snapshot, opt engine.Options, x advice.Suggestion) (*engine.Snapshot, engine.Options) {
	t.Helper()
	out := *s
	out.NodePools, out.Pods = nil, nil
	for _, p := range s.NodePools {
		p = p.DeepCopy()
		if x.Object == "NodePool "+p.Name {
			followedBy(p, x)
		}
		out.NodePools = append(out.NodePools, p)
	}
	for _, p := range s.Pods {
		p = p.DeepCopy()
		kind, name, _ := strings.Cut(x.Object, " ")
		if p.Spec.NodeName == "" && kind != "NodePool" && ownedBy(p, name) {
			switch x.Kind {
			case advice.Spread:
				p.Spec.TopologySpreadConstraints = slices.DeleteFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
					return c.TopologyKey == x.Keys[0] && c.WhenUnsatisfiable == corev1.DoNotSchedule
				})
			case advice.Requests:
				for i := range p.Spec.Containers {
					if strings.Contains(x.Change, "in container "+p.Spec.Containers[i].Name+",") {
						p.Spec.Containers[i].Resources.Requests[corev1.ResourceName(x.Keys[0])] = resource.MustParse(x.Values[0])
					}
				}
			}
		}
		out.Pods = append(out.Pods, p)
	}
	if x.Kind == advice.Preferences {
		opt.Preferences = engine.PreferencePolicy(x.Values[0])
	}
	return &out, opt
}

func ownedBy(p *corev1.Pod, name string) bool {
	if len(p.OwnerReferences) > 0 {
		return p.Namespace+"/"+p.OwnerReferences[0].Name == name || strings.HasPrefix(p.Namespace+"/"+p.OwnerReferences[0].Name, name+"-")
	}
	rest, ok := strings.CutPrefix(p.Namespace+"/"+p.Name, name)
	return ok && strings.Trim(rest, "-0123456789") == ""
}

func followedBy(p *v1.NodePool, x advice.Suggestion) {
	requirements := p.Spec.Template.Spec.Requirements
	p.Spec.Template.Spec.Requirements = nil
	for _, r := range requirements {
		switch about := slices.Contains(x.Keys, r.Key); {
		case about && x.Kind == advice.InstanceTypes && r.MinValues != nil:
			r.Operator, r.Values = v1.Exists, nil
		case about && x.Kind == advice.InstanceTypes:
			continue
		case about && r.Operator == v1.In:
			r.Values = append(r.Values, x.Values...)
		case about && r.Operator == v1.NotIn:
			r.Values = slices.DeleteFunc(r.Values, func(v string) bool { return slices.Contains(x.Values, v) })
		}
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, r)
	}
	switch x.Kind {
	case advice.Limits:
		p.Spec.Limits = nil
	case advice.Weight:
		p.Spec.Weight = nil
	}
}

func asJSON(t *testing.T, x any) string {
	t.Helper()
	out, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
