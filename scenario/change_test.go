package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/scenario"
)

const changeCluster = `now 2026-01-01T12:00:00Z
type m cpu=4 mem=16Gi zones=a,b price=0.20
pool general limits=cpu:8
node n1 pool=general type=m zone=a
pods web x3 ns=shop cpu=1 mem=1Gi node=n1 owner=ReplicaSet/web
pods web-late x2 ns=shop cpu=1 mem=1Gi owner=ReplicaSet/web
`

const poolText = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
spec:
  limits:
    cpu: 40
  template:
    spec:
      nodeClassRef:
        group: karpenter.kwok.sh
        kind: KWOKNodeClass
        name: default
      requirements:
        - key: topology.kubernetes.io/zone
          operator: In
          values: [a]
  disruption:
    budgets:
      - nodes: 10%
`

// A mistake names the line and the field, whatever check finds it.
func TestAMistakeOfAChangeNamesLineAndField(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(changeCluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"cpu: 40", "cpu: [", "did not find"},
		{"    cpu: 40", "\tcpu: 40", "7  found character that cannot start any token"},
		{"nodes: 10%", "nodes: ten", `20 spec.disruption.budgets[0].nodes`},
		{"operator: In", "operator: Inn", `16 spec.template.spec.requirements[0].operator`},
		{"      - nodes: 10%", "      - nodes: 10%\n        schedule: '@daily'", `20 spec.disruption`},
		{"  limits:", "  limit:", `6 spec.limit unknown field "spec.limit": did you mean spec.limits?`},
		{"cpu: 40", "cpu: forty", "7 spec.limits"},
		{"name: default", "name: other", "10 spec.template.spec.nodeClassRef what KWOKNodeClass other can buy is not known here: pools of this cluster refer to KWOKNodeClass default"},
		{"karpenter.sh/v1\n", "karpenter.sh/v1beta1\n", "1 apiVersion group karpenter.sh has no kind NodePool of version"},
		{"kind: NodePool", "kind: NodeClaim", "2 kind NodeClaim of karpenter.sh/v1 cannot be tried here: it is NodePool, NodeOverlay"},
		{"kind: NodePool", "kind: Secret", "2 kind Secret of karpenter.sh/v1 cannot be tried here"},
		{"  name: general", "  name: $(reboot)", "4 metadata.name a lowercase RFC 1123 subdomain"},
		{"  name: general", "  labels: {}", "3 metadata.name metadata.name is missing"},
		{poolText, "# nothing\n", "0  there is no object"},
		{poolText, "just words", "this is no Kubernetes object"},
		{poolText, "---\n---\n" + poolText + "---\n" + poolText, "24  NodePool general is defined twice: first in line 3"},
		{poolText, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: new}\nspec: {replicas: 3}", "4 spec there is no pod of it yet"},
		{poolText, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: -1", "5 spec.replicas"},
		{poolText, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 20000", "5 spec.replicas the text asks for 19995 pods more than there are; 10000 can be planned here"},
		{"cpu: 40", "cpu: 1e999999999", "1e999999999 is more than anything can be"},
		{poolText, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replica: 1", "5 spec.replica unknown field"},
	} {
		text := strings.Replace(poolText, c.from, c.to, 1)
		if text == poolText {
			t.Fatalf("the text lacks %q", c.from)
		}
		changed := scenario.Change(file.Snapshot, []byte(text))
		var got []string
		for _, m := range changed.Mistakes {
			got = append(got, fmt.Sprintf("%d %s %s", m.Line, m.Field, m.Text))
		}
		if changed.Snapshot != nil || !slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, c.want) }) {
			t.Errorf("%s: %q, want %s", c.to, got, c.want)
		}
	}
}

func TestAChangeLeavesTheSnapshotAsItIs(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(changeCluster)
	if err != nil {
		t.Fatal(err)
	}
	s := file.Snapshot
	var before strings.Builder
	if err := scenario.Write(&before, s, file.Options); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]int{"replicas: 0": 0, "replicas: 1": 1, "replicas: 3": 3, "replicas: 5": 5, "replicas: 9": 9, "paused: false": 5} {
		text := poolText + fmt.Sprintf("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {%s}\n", spec) +
			"---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: dear}\nspec: {requirements: [], priceAdjustment: '+20%'}\n"
		changed := scenario.Change(s, []byte(text))
		if changed.Snapshot == nil {
			t.Fatal(changed.Mistakes)
		}
		running := 0
		for _, p := range changed.Snapshot.Pods {
			if p.Spec.NodeName != "" {
				running++
			}
		}
		if len(changed.Snapshot.Pods) != want || running != min(want, 3) {
			t.Errorf("%s: %d pods, %d of them run", spec, len(changed.Snapshot.Pods), running)
		}
		pool := changed.Snapshot.NodePools[0]
		if len(changed.Snapshot.NodePools) != 1 || pool.Spec.Limits["cpu"] != resource.MustParse("40") || pool.UID != s.NodePools[0].UID || len(pool.Status.Conditions) == 0 {
			t.Errorf("the pool is %v", pool)
		}
		if !slices.ContainsFunc(changed.Notes, func(n string) bool { return strings.HasPrefix(n, "NodeOverlay dear: ") }) {
			t.Errorf("nothing is said of the overlay: %q", changed.Notes)
		}
	}
	var after strings.Builder
	if err := scenario.Write(&after, s, file.Options); err != nil || before.String() != after.String() {
		t.Errorf("the snapshot has changed: %v", err)
	}
}
