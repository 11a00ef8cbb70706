package churn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/churn"
	"tenon.sh/engine/kube"
)

// comings is a cluster whose machines come and go as a test says.
type comings struct {
	churn.History
	now    time.Time
	pool   *v1.NodePool
	prices []engine.Class
	n      int
	heard  []churn.Case
}

func newComings(after time.Duration) *comings {
	ref := v1.NodeClassReference{Group: "g", Kind: "K", Name: "c"}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Disruption.ConsolidateAfter = v1.DurationOf(after)
	return &comings{
		now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), pool: pool,
		prices: []engine.Class{{Ref: ref, InstanceTypes: []engine.InstanceType{{
			Name: "small", Offerings: []engine.Offering{{Zone: "a", CapacityType: "on-demand", Price: 0.6}},
		}}}},
	}
}

// look shows the cluster as it is.
func (c *comings) look(pods []*corev1.Pod, claims ...*v1.NodeClaim) {
	c.heard = append(c.heard, c.Follow(&engine.Snapshot{
		Now: c.now, Pods: pods, NodePools: []*v1.NodePool{c.pool}, NodeClaims: claims, Classes: c.prices,
	})...)
}

// machine comes for a pod, stays, and goes.
func (c *comings) machine(kind, owner, hash string, stays time.Duration, why v1.DisruptionReason) {
	c.n++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("p", c.n), Namespace: "default", UID: types.UID(fmt.Sprint("p", c.n)), Labels: map[string]string{"pod-template-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}},
	}}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("c", c.n), UID: types.UID(fmt.Sprint("c", c.n)), CreationTimestamp: metav1.NewTime(c.now),
		Labels:      map[string]string{v1.NodePoolLabelKey: "general"},
		Annotations: map[string]string{kube.PlannedPodsAnnotation: fmt.Sprint("p", c.n)},
	}}
	c.look([]*corev1.Pod{pod}, claim)
	claim = claim.DeepCopy()
	claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone] = "small", "a"
	claim.Labels[v1.CapacityTypeLabelKey] = "on-demand"
	claim.Spec.NodeClassRef = &c.prices[0].Ref
	c.look(nil, claim)
	claim = claim.DeepCopy()
	v1.SetCondition(claim, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(why), "", c.now)
	c.now = c.now.Add(stays)
	c.look(nil, claim)
	c.look(nil)
}

func TestMachinesThatComeAndGoForACronJobAreToldOfOnceAnHour(t *testing.T) {
	t.Parallel()
	c := newComings(30 * time.Second)
	for minute := range 150 {
		c.machine("Job", fmt.Sprint("report-", 29384756+minute), "", 45*time.Second, v1.Empty)
		c.now = c.now.Add(15 * time.Second)
	}
	if len(c.heard) != 3 {
		t.Fatalf("told %d times in 150 minutes", len(c.heard))
	}
	got := c.heard[1] // of a whole hour: 60 or 61 machines, billed for a minute each at $0.60 an hour
	if got.NodePool != "general" || got.Owner != "CronJob default/report" || got.Machines < 60 || got.Machines > 61 {
		t.Errorf("%+v", got)
	}
	if got.After != 30*time.Second || got.Longer != time.Minute || got.KeptCost != 0.6 || got.Cost < 0.599 || got.Cost > 0.62 || got.LongerCost > 0.62 {
		t.Errorf("%+v", got)
	}
	for _, part := range []string{"machines were started and removed for pods of CronJob default/report, for $0.6", "consolidateAfter 1m instead of 30s", "$0.6000 an hour"} {
		if !strings.Contains(got.Message(), part) {
			t.Errorf("%q lacks %q", got.Message(), part)
		}
	}
}

func TestOnlyMachinesThatConsolidationRemovesForOneOwnerAreChurn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind, owner string
		why         v1.DisruptionReason
		every       time.Duration
		want        string
	}{
		"a Deployment":                     {"ReplicaSet", "web-abc", v1.Empty, 5 * time.Minute, "Deployment default/web"},
		"a ReplicaSet of its own":          {"ReplicaSet", "web-xyz", v1.Underutilized, 5 * time.Minute, "ReplicaSet default/web-xyz"},
		"machines with too much room":      {"StatefulSet", "db", v1.Underutilized, 5 * time.Minute, "StatefulSet default/db"},
		"few":                              {"Job", "report-29384756", v1.Empty, 15 * time.Minute, ""},
		"drifted":                          {"ReplicaSet", "web-abc", v1.Drifted, 5 * time.Minute, ""},
		"Jobs that have nothing in common": {"Job", "%d", v1.Empty, 5 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newComings(0)
			for i := range 20 {
				c.machine(tt.kind, strings.Replace(tt.owner, "%d", fmt.Sprint("migrate-", i), 1), "abc", time.Minute, tt.why)
				c.now = c.now.Add(tt.every - time.Minute)
			}
			if tt.want == "" && len(c.heard) > 0 || tt.want != "" && (len(c.heard) != 2 || c.heard[0].Owner != tt.want) {
				t.Errorf("heard %+v, want it of %q", c.heard, tt.want)
			}
		})
	}
}

func TestMoreOwnersThanAreRememberedAreToldOfOnceOthersAreForgotten(t *testing.T) {
	t.Parallel()
	c := newComings(0)
	for i := range 500 {
		c.machine("StatefulSet", fmt.Sprint("s-", i), "", 0, v1.Empty)
	}
	late := func() int {
		for range 10 {
			c.machine("StatefulSet", "late", "", time.Minute, v1.Empty)
		}
		return len(c.heard)
	}
	if n := late(); n != 0 {
		t.Errorf("%d words about one owner more than are remembered", n)
	}
	c.now = c.now.Add(time.Hour)
	if n := late(); n != 1 {
		t.Errorf("%d words once there is room", n)
	}
}
