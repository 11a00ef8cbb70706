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

// lateFor is how long what a node said of itself is remembered: a pass that is hurried begins within a second and takes less than the rest.
const lateFor = 5 * time.Second

// lateNodes remembers nodes that said that they had been broken since before anybody knew. Their kubelets may report Ready again within a
// second, which is before a pass looks: whether the node is due for repair is decided by what it said.
type lateNodes struct {
	clock clock.PassiveClock
	mu    sync.Mutex // guards said
	said  map[types.UID]said
}

type said struct {
	node *corev1.Node
	at   time.Time
}

func (l *lateNodes) remember(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	if l.said == nil {
		l.said = map[types.UID]said{}
	}
	l.said[node.UID] = said{node, l.clock.Now()}
}

// forget drops what was said too long ago.
func (l *lateNodes) forget() {
	for uid, s := range l.said {
		if l.clock.Since(s.at) > lateFor {
			delete(l.said, uid)
		}
	}
}

// in is the snapshot with the conditions that its nodes had when they said so.
func (l *lateNodes) in(s *engine.Snapshot) *engine.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget(); len(l.said) == 0 {
		return s
	}
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	for i, node := range out.Nodes {
		if said, late := l.said[node.UID]; late {
			out.Nodes[i] = node.DeepCopy()
			out.Nodes[i].Status.Conditions = said.node.Status.Conditions
		}
	}
	return &out
}

// Late has the next pass see the node as it is now, whatever it says by then. It may be called from any goroutine.
func (r *Reconciler) Late(node *corev1.Node) { r.late.remember(node) }

// Snapshot is the cluster as a pass sees it.
func (r *Reconciler) Snapshot(ctx context.Context) (*engine.Snapshot, error) {
	s, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return r.late.in(s), nil
}
