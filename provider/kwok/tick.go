package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

var (
	_ manager.Runnable               = &Provider{}
	_ manager.LeaderElectionRunnable = &Provider{}
)

// atOnce is how many Nodes are created or deleted at the same time.
const atOnce = 10

// NeedLeaderElection is true: only the leader writes Nodes.
func (p *Provider) NeedLeaderElection() bool { return true }

// Start calls Tick whenever something is due, until ctx ends.
func (p *Provider) Start(ctx context.Context) error {
	var o outage
	for ctx.Err() == nil {
		next, err := p.Tick(ctx)
		if ctx.Err() != nil {
			break
		}
		o.tell(log.FromContext(ctx), err)
		if err != nil {
			if retry := p.clock.Now().Add(o.wait()); next.IsZero() || retry.Before(next) {
				next = retry
			}
		}
		p.sleep(ctx, next)
	}
	return nil
}

// outage is a row of failures for the same cause.
type outage struct {
	failures int
	cause    string
}

// tell says what has changed: one cause may keep many machines from being shown, again and again.
func (o *outage) tell(logger logr.Logger, err error) {
	cause := ""
	if err != nil {
		o.failures++
		cause = cmp.Or(string(apierrors.ReasonForError(err)), err.Error())
	}
	switch {
	case cause == o.cause:
	case err != nil:
		logger.Error(err, "showing simulated machines as nodes; it is tried again, less and less often")
	default:
		logger.Info("simulated machines are shown as nodes again", "failures", o.failures)
		o.failures = 0
	}
	o.cause = cause
}

// wait is how long after a failure it is tried again.
func (o *outage) wait() time.Duration {
	return min(retryAfter<<min(o.failures-1, 6), retryAtMost)
}

// sleep waits until a time, the zero time being never, or until something is launched or terminated.
func (p *Provider) sleep(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := p.clock.NewTimer(until.Sub(p.clock.Now()))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-due:
	}
}

// Tick creates the Nodes of machines that have booted, deletes those of machines that are gone, and does to Nodes what faults say.
// It says when it
// should be called next, the zero time if nothing is coming. What failed is tried again by the next call.
func (p *Provider) Tick(ctx context.Context) (next time.Time, err error) {
	p.ticking.Lock()
	defer p.ticking.Unlock()
	if err := p.takeIn(ctx); err != nil {
		return time.Time{}, err
	}
	// What is next is asked before what is due now: whatever falls due in between is done here or is next, and what falls
	// due while the work goes on is next.
	next, _ = p.cloud.Next()
	now, work := p.clock.Now(), []func() error{}
	booting, nodes, seconds := p.watched()
	for _, id := range booting {
		b, found := p.cloud.Boot(id)
		if !found {
			p.setBooted(id)
			continue
		}
		if !b.Leaving && !b.Registers.IsZero() && !b.Registers.After(now) {
			work = append(work, func() error { return p.show(ctx, b) })
		}
	}
	for _, id := range p.cloud.Gone(nodes) {
		if uid, found := p.nodeOf(id); found {
			work = append(work, func() error { return p.hide(ctx, id, uid) })
		}
	}
	for _, id := range p.cloud.Gone(seconds) {
		work = append(work, func() error { return p.hideSecond(ctx, id) })
	}
	err = runAll(work)
	if again, failed := p.carryOutFaults(ctx); again {
		if soon := p.clock.Now().Add(retryAfter); next.IsZero() || soon.Before(next) {
			next = soon
		}
		err = errors.Join(err, failed)
	}
	return next, err
}

// runAll does all of the work, whatever fails of it, and returns what failed.
func runAll(work []func() error) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	failed := make([]error, len(work))
	for i, do := range work {
		group.Go(func() error {
			failed[i] = do()
			return nil
		})
	}
	_ = group.Wait() // nothing above returns an error
	return errors.Join(failed...)
}

// show creates the Node of a machine. A machine whose claim is gone is not shown but stopped: its launch is cancelled.
func (p *Provider) show(ctx context.Context, b simulated.Boot) error {
	claim := &v1.NodeClaim{}
	err := p.client.Get(ctx, types.NamespacedName{Name: b.Claim}, claim)
	if apierrors.IsNotFound(err) || err == nil && string(claim.UID) != b.ClaimUID {
		if err := p.cloud.Terminate(b.ID); err != nil && !errors.Is(err, provider.ErrGone) {
			return fmt.Errorf("cancel the launch of machine %s, whose claim is gone: %w", b.ID, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the node of machine %s: read its claim: %w", b.ID, err)
	}
	if !claim.DeletionTimestamp.IsZero() {
		return nil // it will be told to stop
	}
	m, allocatable, found := p.cloud.Inspect(b.ID)
	if !found || m.Leaving {
		return nil
	}
	offering := simulated.OfferingOf(m)
	node := newNode(claim, m, allocatable, p.cloud.Price(offering), !b.Ready.IsZero() && !b.Held)
	p.cloud.Dress(node)
	err = p.client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		node, err = p.ownNode(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("create the node of machine %s: %w", b.ID, err)
	}
	p.setNode(b.ID, node.UID)
	return nil
}

// ownNode finds the Node that a machine has already, which happens when the answer to its creation was lost.
func (p *Provider) ownNode(ctx context.Context, m engine.Machine) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := p.reader.Get(ctx, types.NamespacedName{Name: nodeName(m.ID)}, node); err != nil {
		return nil, err
	}
	if node.Spec.ProviderID != string(m.ID) || node.Annotations[ClaimUIDAnnotationKey] != m.ClaimUID {
		return nil, fmt.Errorf("there is another node of that name, with provider ID %q: delete it or the claim", node.Spec.ProviderID)
	}
	return node, nil
}

// hide deletes the Node of a machine that is gone.
func (p *Provider) hide(ctx context.Context, id engine.MachineID, uid types.UID) error {
	if !p.goes(ctx, id, uid) {
		node := &corev1.Node{}
		node.Name = nodeName(id)
		err := p.client.Delete(ctx, node, client.Preconditions{UID: &uid})
		// A conflict means that the name belongs to another Node by now.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete the node of machine %s, which is gone: %w", id, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodes[id] == uid {
		delete(p.nodes, id)
	}
	return nil
}

// goes reports whether a Node is being deleted already, as it is when it was drained.
func (p *Provider) goes(ctx context.Context, id engine.MachineID, uid types.UID) bool {
	node := &corev1.Node{}
	err := p.client.Get(ctx, types.NamespacedName{Name: nodeName(id)}, node)
	return err == nil && node.UID == uid && node.DeletionTimestamp != nil
}

func (p *Provider) nodeOf(id engine.MachineID) (uid types.UID, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid, found = p.nodes[id]
	return uid, found
}

func (p *Provider) setNode(id engine.MachineID, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[id] = uid
	delete(p.booting, id)
}

// setBooted forgets a machine that ended before it had a Node.
func (p *Provider) setBooted(id engine.MachineID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.booting, id)
}

// watched lists the machines that boot, those that have a Node, and those that have two.
func (p *Provider) watched() (booting, nodes, seconds []engine.MachineID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.booting)), slices.Collect(maps.Keys(p.nodes)), slices.Collect(maps.Keys(p.seconds))
}
