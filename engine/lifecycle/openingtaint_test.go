package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
)

// lifeOpening is a node that is registered and waits to be opened.
func lifeOpening(n *corev1.Node) {
	enginetest.LifeOpen(n)
	n.Spec.Taints = []corev1.Taint{kube.OpeningTaint()}
}

func TestPlannedPodsAreNominatedWhenTheNodeOpensAndNotBefore(t *testing.T) {
	t.Parallel()
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	startup := corev1.Taint{Key: "booting", Effect: corev1.TaintEffectNoExecute}
	registered := enginetest.LifeClaim(enginetest.LifePlanned, enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered))
	for _, c := range []struct {
		name     string
		claim    *v1.NodeClaim
		node     *corev1.Node
		after    time.Duration
		off      bool
		nominate bool
		closed   bool // the opening taint is on the node afterwards
	}{
		{name: "registers before it is ready", claim: enginetest.LifeClaim(enginetest.LifePlanned, enginetest.LifeLaunched), node: enginetest.LifeNode(enginetest.LifeNotReady), closed: true},
		{name: "registers for nobody in particular", claim: enginetest.LifeClaim(enginetest.LifeLaunched), node: enginetest.LifeNode(enginetest.LifeNotReady)},
		{name: "registers with nominations off", claim: enginetest.LifeClaim(enginetest.LifePlanned, enginetest.LifeLaunched), node: enginetest.LifeNode(enginetest.LifeNotReady), off: true},
		{name: "becomes ready", claim: registered, node: enginetest.LifeNode(lifeOpening), nominate: true},
		{name: "is ready but still tainted so", claim: registered, closed: true, node: enginetest.LifeNode(lifeOpening, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, notReady)
		})},
		{name: "waits for a startup taint", claim: registered, closed: true, node: enginetest.LifeNode(lifeOpening, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, startup)
		})},
		{name: "is not ready for long", claim: registered, node: enginetest.LifeNode(lifeOpening, enginetest.LifeNotReady), after: OpeningPatience, nominate: true},
		{name: "is open already", claim: registered, node: enginetest.LifeNode(enginetest.LifeOpen)},
	} {
		step := Next(Life{Now: enginetest.LifeStart.Add(c.after), Claim: c.claim, Nodes: []*corev1.Node{c.node}, Nominating: !c.off})
		if (step.Nominate != "") != c.nominate {
			t.Errorf("a node that %s: nominate %q", c.name, step.Nominate)
		}
		node := c.node
		if len(step.Nodes) > 0 {
			node = step.Nodes[0]
		}
		if kube.HasTaint(node, kube.OpeningTaint()) != c.closed {
			t.Errorf("a node that %s has the taints %v", c.name, node.Spec.Taints)
		}
		if c.closed && v1.IsTrue(c.claim, v1.ConditionRegistered) && step.After > OpeningPatience {
			t.Errorf("a node that %s is looked at again after %v only", c.name, step.After)
		}
	}
}
