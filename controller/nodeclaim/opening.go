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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/nomination"
)

const (
	// openingPoll is how often the nodes that could open, and the pods of opening nodes, are checked.
	openingPoll = 25 * time.Millisecond
	// openingRetry is the time to the next look at a node that had to wait for others, or was opened with others.
	openingRetry = 2 * time.Second
)

// openings collects nodes that could open, because nodes that become ready at about the same time have to open together:
// nomination.StartupGate says why, and how.
type openings struct {
	mu      sync.Mutex // guards what follows
	waiting map[types.UID]opening
	// busy is set while a goroutine opens nodes; opening holds the claims of the nodes that are not open yet.
	busy    bool
	opening map[types.UID]bool
	// settling holds claims whose nodes are open and whose status does not show it yet: the goroutine that opened the nodes handles the pods.
	settling map[types.UID]bool
	// reached holds the claims of gangs whose nodes could open.
	reached map[types.UID]bool
}

// opening is a node that could open, in its present and its wanted form.
type opening struct {
	claim    *v1.NodeClaim
	from, to *corev1.Node
}

// enter adds a node that could open. It reports whether the caller has to open nodes now, because no other goroutine does.
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

// reach notes that the claim's node could open, and forgets claims that do not exist any more.
func (o *openings) reach(claim *v1.NodeClaim, claims []*v1.NodeClaim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.reached
	o.reached = map[types.UID]bool{claim.UID: true}
	for _, c := range claims {
		if known[c.UID] {
			o.reached[c.UID] = true
		}
	}
}

func (o *openings) hasReached(claim *v1.NodeClaim) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reached[claim.UID]
}

// ready lists the nodes that could open, by name.
func (o *openings) ready() []opening {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.waiting), func(a, b opening) int { return strings.Compare(a.to.Name, b.to.Name) })
}

// take removes and returns the nodes that could open.
func (o *openings) take() []opening {
	nodes := o.ready()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opening = map[types.UID]bool{}
	for _, n := range nodes {
		delete(o.waiting, n.claim.UID)
		o.opening[n.claim.UID] = true
	}
	return nodes
}

// isOpening reports whether a goroutine is about to open the claim's node. The claim's own steps wait, because their writes would only
// delay this.
func (o *openings) isOpening(claim *v1.NodeClaim) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opening[claim.UID]
}

// leave lets another goroutine open nodes. The caller calls leave once all taken nodes are open, because a pod that never finds its place
// on one of them must not delay the other nodes. The claim is settling until settled is called.
func (o *openings) leave(claim *v1.NodeClaim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.settling == nil {
		o.settling = map[types.UID]bool{}
	}
	o.busy, o.opening, o.settling[claim.UID] = false, nil, true
}

func (o *openings) settled(claim *v1.NodeClaim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.settling, claim.UID)
}

func (o *openings) isSettling(claim *v1.NodeClaim) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settling[claim.UID]
}

// open opens the claim's node together with other nodes that could open, or leaves this to the goroutine that is opening nodes. It
// reports whether the node is open now; if not, the claim needs another look.
func (a *application) open(ctx context.Context) (opened bool, err error) {
	node := a.step.Nodes[0]
	if a.awaitsGang(ctx) {
		a.after = openingRetry
		return false, nil
	}
	if !a.openings.enter(opening{a.life.Claim, a.node(node.Name), node}) {
		a.after = openingRetry
		return false, nil
	}
	leave := sync.OnceFunc(func() { a.openings.leave(a.life.Claim) })
	defer a.openings.settled(a.life.Claim)
	defer leave()
	began := a.Cluster.Clock.Now()
	for a.awaitsSiblings(ctx, began) && a.Pause(ctx, openingPoll) {
	}
	written, err := a.openAll(ctx, a.openings.take(), leave)
	if written != nil {
		a.replace(written)
	}
	return written != nil, err
}

// awaitsGang reports whether the node stays closed until other machines for the same pods are there.
func (a *application) awaitsGang(ctx context.Context) bool {
	claim := a.life.Claim
	if len(kube.GangsOf(claim)) == 0 {
		return false
	}
	var list v1.NodeClaimList
	if err := a.Cluster.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return false // reading a cache that runs does not fail
	}
	claims := make([]*v1.NodeClaim, len(list.Items))
	for i := range list.Items {
		claims[i] = &list.Items[i]
	}
	a.openings.reach(claim, claims)
	return nomination.AwaitGang(claim, claims, a.openings.hasReached, a.Cluster.Clock.Now())
}

// awaitsSiblings reports whether the node should wait for another node.
func (a *application) awaitsSiblings(ctx context.Context, began time.Time) bool {
	var ready, claims []*v1.NodeClaim
	for _, node := range a.openings.ready() {
		ready = append(ready, node.claim)
	}
	var list v1.NodeClaimList
	if err := a.Cluster.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return false // reading a cache that runs does not fail
	}
	for i := range list.Items {
		if claim := &list.Items[i]; !a.openings.isSettling(claim) {
			claims = append(claims, claim)
		}
	}
	return nomination.AwaitSiblings(ready, claims, began, a.Cluster.Clock.Now())
}

// openAll opens nodes as the engine decides, and calls opened when all are open. It returns the node of its own claim as it was written.
func (a *application) openAll(ctx context.Context, nodes []opening, opened func()) (own *corev1.Node, err error) {
	group, byName := make([]nomination.Opening, len(nodes)), map[string]opening{}
	for i, n := range nodes {
		group[i] = nomination.Opening{Node: n.to}
		byName[n.to.Name] = n
		if !a.Options.NoNominations {
			group[i].Pods = a.plannedPods(ctx, n.claim)
		}
	}
	group = a.nominees(ctx, group)
	opener, pods := nomination.NewStartupGate(group, a.Cluster.Clock.Now()), a.viewOf(group)
	for {
		step := opener.Next(a.Cluster.Clock.Now(), func(uid types.UID) nomination.PodSight { return pods.find(ctx, uid) })
		pods.nominate(ctx, step.Nominate)
		if written, failed := a.openNodes(ctx, step.Open, byName); written != nil || failed != nil {
			own, err = written, failed
		}
		if step.Opened {
			opened()
		}
		if step.Done || len(step.Open) == 0 && !a.Pause(ctx, openingPoll) {
			return own, err
		}
	}
}

// openNodes opens nodes at once. The next steps of the other nodes' claims find their results.
func (a *application) openNodes(ctx context.Context, names []string, nodes map[string]opening) (own *corev1.Node, err error) {
	var writes errgroup.Group
	writes.SetLimit(cmp.Or(a.WritesAtOnce, writesAtOnce))
	for _, name := range names {
		writes.Go(func() error {
			n := nodes[name]
			written, failed := a.patchNode(ctx, n.from, n.to)
			switch {
			case n.claim.UID == a.life.Claim.UID:
				own, err = written, failed
			case failed != nil && !cluster.Expected(failed):
				log.FromContext(ctx).Error(failed, "could not open node", "Node", name)
			}
			return nil
		})
	}
	_ = writes.Wait() // every node has its own error
	return own, err
}

// pause waits in real time. It reports false if ctx ends before.
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
