package nodeclaim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

const (
	// A node that could open waits for others that were asked for at the same time: for openingLeast and for a share of
	// the time that it took itself, one in openingShare, but no longer than openingMost.
	openingLeast, openingShare, openingMost = 5 * time.Second, 4, 10 * time.Second
	// openingPoll is how often the nodes that could open, and the pods of those that were opened, are looked at.
	openingPoll = 25 * time.Millisecond
	// openingTries is how often a pod is nominated at most, openingHold for how long: each time that it loses its
	// nomination, kube-scheduler tries others again.
	openingTries, openingHold = 5, 3 * time.Second
	// openingBlind is how often all nominations are written again after nodes were opened.
	openingBlind = 3
	// openingsAtOnce is how many nodes are being opened at a time; they stay in order as far as that.
	openingsAtOnce = 8
	// openingRetry is when a node that had to wait for others, or was opened with others, is looked at again.
	openingRetry = 2 * time.Second
)

// openings opens nodes together. Whenever a node opens, kube-scheduler tries all waiting pods again, and a pod that it
// finds no node for loses its nomination. Of nodes that open regardless of each other, one costs the pods of the next
// their nominations; then the room that was kept for them goes to pods that are planned for nodes still closed. So nodes
// that become ready at about the same time open at one go: first all their pods are nominated, then all are opened, and
// pods that lose their nomination meanwhile get it back.
type openings struct {
	mu      sync.Mutex // guards what follows
	waiting map[types.UID]opening
	// busy is set while somebody opens nodes.
	busy bool
}

// opening is a node that could open, as it is and as it should be.
type opening struct {
	claim    *v1.NodeClaim
	from, to *corev1.Node
}

// enter adds a node that could open. It reports whether the caller has to open nodes now, because nobody else does.
func (o *openings) enter(node opening) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting == nil {
		o.waiting = map[types.UID]opening{}
	}
	o.waiting[node.claim.UID] = node
	if o.busy {
		return false
	}
	o.busy = true
	return true
}

// take takes the nodes that could open.
func (o *openings) take() []opening {
	o.mu.Lock()
	defer o.mu.Unlock()
	group := slices.SortedFunc(maps.Values(o.waiting), func(a, b opening) int { return strings.Compare(a.to.Name, b.to.Name) })
	clear(o.waiting)
	return group
}

// leave lets the next one open nodes.
func (o *openings) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
}

// created holds when the claims were created whose nodes could open.
func (o *openings) created() map[types.UID]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[types.UID]time.Time{}
	for uid, node := range o.waiting {
		out[uid] = node.claim.CreationTimestamp.Time
	}
	return out
}

// open opens the claim's node together with those that could open too, or leaves it to whoever is busy with that. It
// reports whether the node is open now; if not, the claim is to be looked at again.
func (a *application) open(ctx context.Context) (opened bool, err error) {
	node := a.step.Nodes[0]
	if !a.openings.enter(opening{a.life.Claim, a.node(node.Name), node}) {
		a.after = openingRetry
		return false, nil
	}
	defer a.openings.leave()
	a.gather(ctx)
	group := a.inOrder(ctx, a.openings.take())
	seating := a.seat(ctx, group)
	a.nominate(ctx, seating, false)
	for i, failed := range a.openAll(ctx, group) {
		if group[i].claim.UID == a.life.Claim.UID {
			opened, err = failed == nil, failed
		}
	}
	a.hold(ctx, seating)
	return opened, err
}

// gather returns when no other node is worth waiting for.
func (a *application) gather(ctx context.Context) {
	began := a.Cluster.Clock.Now()
	most := min(openingLeast+began.Sub(a.life.Claim.CreationTimestamp.Time)/openingShare, openingMost)
	for a.Cluster.Clock.Since(began) < most && a.siblingsComing(ctx) && a.Pause(ctx, openingPoll) {
	}
}

// siblingsComing reports whether any machine was started for pods at about the same time as those whose nodes could open,
// and has no node yet that is open or could open.
func (a *application) siblingsComing(ctx context.Context) bool {
	var claims v1.NodeClaimList
	if err := a.Cluster.Client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return false // reading a cache that runs does not fail
	}
	ready := a.openings.created()
	times := slices.SortedFunc(maps.Values(ready), time.Time.Compare)
	return len(times) > 0 && slices.ContainsFunc(claims.Items, func(c v1.NodeClaim) bool {
		_, known := ready[c.UID]
		created := c.CreationTimestamp.Time
		return !known && c.DeletionTimestamp == nil && len(engine.PlannedPods(&c)) > 0 && !v1.IsTrue(&c, v1.ConditionInitialized) &&
			created.Sub(times[len(times)-1]) < openingMost && times[0].Sub(created) < openingMost
	})
}

// inOrder puts the larger nodes first: what is planned for them often fits nowhere else, while their room would do for the
// pods of any other. Of equal ones those are first whose pods kube-scheduler will try first: from the moment that the first
// node opens, it tries pods about as fast as others can be opened.
func (a *application) inOrder(ctx context.Context, nodes []opening) []opening {
	first := map[string]*corev1.Pod{}
	for _, node := range nodes {
		first[node.to.Name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(node.to.Name)}}
		if pods := a.plannedPods(ctx, node.claim); len(pods) > 0 {
			first[node.to.Name] = slices.MinFunc(pods, triedBefore)
		}
	}
	slices.SortFunc(nodes, func(a, b opening) int {
		return cmp.Or(b.to.Status.Allocatable.Cpu().Cmp(*a.to.Status.Allocatable.Cpu()), triedBefore(first[a.to.Name], first[b.to.Name]))
	})
	return nodes
}

// openAll opens nodes in their order. It returns what became of each.
func (a *application) openAll(ctx context.Context, nodes []opening) []error {
	errs := make([]error, len(nodes))
	var writes errgroup.Group
	writes.SetLimit(openingsAtOnce)
	for i, node := range nodes {
		writes.Go(func() error {
			written, err := a.patchNode(ctx, node.from, node.to)
			if node.claim.UID == a.life.Claim.UID && err == nil {
				a.replace(written)
			} else if err != nil && !cluster.Expected(err) {
				log.FromContext(ctx).Error(err, "could not open node", "Node", node.to.Name)
			}
			errs[i] = err
			return nil
		})
	}
	_ = writes.Wait() // every node has its own error
	return errs
}

// hold gives pods their nomination back that kube-scheduler took because it tried them too early: before their node was
// open, or before others ran that they are to be spread with. At first it does not wait to hear of that: the pod waits a
// moment before it is tried again, and by then it should be nominated. It returns when all pods run somewhere, or it is
// of no use.
func (a *application) hold(ctx context.Context, s *seating) {
	began := a.Cluster.Clock.Now()
	for turn := 0; a.nominate(ctx, s, turn < openingBlind) > 0; turn++ {
		if a.Cluster.Clock.Since(began) > openingHold || !a.Pause(ctx, openingPoll) {
			return
		}
	}
}

// pause waits in real time. It reports false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
