package disrupt

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

// reportLasts is how long a reported fault counts. The pass that it triggers begins within a second, and reads the cluster well before the end.
const reportLasts = 5 * time.Second

// reportedFaults remembers nodes whose kubelets have just reported a fault that began earlier than known, because a repair may be due
// at once. A kubelet may report Ready again before the pass reads the node. The pass sees the reported conditions.
type reportedFaults struct {
	clock clock.PassiveClock
	mu    sync.Mutex // guards nodes
	nodes map[types.UID]reportedFault
}

type reportedFault struct {
	node *corev1.Node
	at   time.Time
}

func (r *reportedFaults) add(node *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	if r.nodes == nil {
		r.nodes = map[types.UID]reportedFault{}
	}
	r.nodes[node.UID] = reportedFault{node, r.clock.Now()}
}

// forget drops faults that no longer count.
func (r *reportedFaults) forget() {
	for uid, fault := range r.nodes {
		if r.clock.Since(fault.at) > reportLasts {
			delete(r.nodes, uid)
		}
	}
}

// in returns the snapshot with the reported conditions.
func (r *reportedFaults) in(s *engine.Snapshot) *engine.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forget(); len(r.nodes) == 0 {
		return s
	}
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i, node := range out.Nodes {
		if fault, ok := r.nodes[node.UID]; ok {
			out.Nodes[i] = node.DeepCopy()
			out.Nodes[i].Status.Conditions = fault.node.Status.Conditions
		}
	}
	return &out
}

// ReportFault remembers the conditions of a node for the next pass, also if the kubelet takes them back before that. Any goroutine may call it.
func (r *Reconciler) ReportFault(node *corev1.Node) { r.faults.add(node) }

// Snapshot returns the cluster as a pass sees it.
func (r *Reconciler) Snapshot(ctx context.Context) (*engine.Snapshot, error) {
	s, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return r.faults.in(s), nil
}
