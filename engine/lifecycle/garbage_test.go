package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

func TestLostClaims(t *testing.T) {
	t.Parallel()
	named := func(name string) func(*v1.NodeClaim) { return func(c *v1.NodeClaim) { c.Name = name } }
	tests := []struct {
		name     string
		claims   []*v1.NodeClaim
		nodes    []*corev1.Node
		machines []engine.Machine
		want     string
	}{
		{"node gone, machine gone", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeRunning, named("b")), enginetest.LifeClaim(enginetest.LifeRunning, named("a"))}, nil, nil, "a b"},
		{"node not Ready", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeRunning)}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)}, nil, "general-1"},
		{"node Ready", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeRunning)}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, nil, ""},
		{"machine listed", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeRunning)}, nil, []engine.Machine{{ID: "sim://1"}}, ""},
		{"never registered", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeLaunched)}, nil, nil, ""},
		{"known to have lost its node", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeLaunched, func(c *v1.NodeClaim) { c.Status.NodeName = "node-1" })}, nil, nil, "general-1"},
		{"already deleted", []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifeDeleted)}, nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var names []string
			for _, c := range Lost(tt.claims, tt.nodes, tt.machines) {
				names = append(names, c.Name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("lost %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	old, young := enginetest.LifeStart, enginetest.LifeStart.Add(40*time.Second)
	now := enginetest.LifeStart.Add(time.Minute)
	claims := []*v1.NodeClaim{enginetest.LifeClaim(enginetest.LifeLaunched)}
	const classLabel = "karpenter.kwok.sh/kwoknodeclass"
	// bare joined without any of our labels, and without the taint that keeps pods off until the node has them.
	bare := func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints, n.Labels = "sim://2", nil, nil }
	tests := []struct {
		name    string
		machine engine.Machine
		nodes   []*corev1.Node
		want    string
	}{
		{"owned by provider ID", engine.Machine{ID: "sim://1", Created: old}, nil, ""},
		{"owned by UID", engine.Machine{ID: "sim://2", ClaimUID: "claim-uid", Created: old}, nil, ""},
		{"owned by name where the cloud knows no UID", engine.Machine{ID: "sim://2", Claim: "general-1", Created: old}, nil, ""},
		{"a later claim of the same name owns nothing", engine.Machine{ID: "sim://2", Claim: "general-1", ClaimUID: "before", Created: old}, nil, "sim://2 terminate"},
		{"nobody's", engine.Machine{ID: "sim://2", Created: old}, nil, "sim://2 terminate"},
		{"nobody's, but young", engine.Machine{ID: "sim://2", Created: young}, nil, ""},
		{"nobody's, leaving already", engine.Machine{ID: "sim://2", Created: old, Leaving: true}, nil, "sim://2"},
		{"its Ready node is drained first", engine.Machine{ID: "sim://2", Created: old}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, func(n *corev1.Node) { n.Spec.ProviderID = "sim://2" })}, "sim://2 node-1"},
		{"its dead node goes with it", engine.Machine{ID: "sim://2", Created: old}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady, func(n *corev1.Node) { n.Spec.ProviderID = "sim://2" })}, "sim://2 terminate node-1"},
		{"a Ready node without our labels is drained first", engine.Machine{ID: "sim://2", Created: old}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, bare)}, "sim://2 node-1"},
		{"also one that is being deleted already", engine.Machine{ID: "sim://2", Created: old}, []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, bare, func(n *corev1.Node) {
			n.Finalizers, n.DeletionTimestamp = []string{v1.TerminationFinalizer}, &metav1.Time{Time: now}
		})}, "sim://2 node-1"},
		{"a node that never registered does not keep it", engine.Machine{ID: "sim://2", Created: old}, []*corev1.Node{enginetest.LifeNode(func(n *corev1.Node) { n.Spec.ProviderID = "sim://2" })}, "sim://2 terminate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var parts []string
			for _, o := range Orphans(claims, tt.nodes, []engine.Machine{tt.machine}, classLabel, now) {
				parts = append(parts, string(o.Machine.ID))
				if o.Terminate {
					parts = append(parts, "terminate")
				}
				for _, n := range o.Nodes {
					parts = append(parts, n.Name)
					if n.Labels[classLabel] == "" {
						t.Errorf("node %s would not be found to be drained", n.Name)
					}
					if !ours(n) {
						t.Errorf("node %s would go before its pods", n.Name)
					}
				}
			}
			if got := strings.Join(parts, " "); got != tt.want {
				t.Errorf("orphans %q, want %q", got, tt.want)
			}
		})
	}
}
