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

// atOnce is the number of Nodes that are created or deleted in parallel.
const atOnce = 10

// NeedLeaderElection returns true, because only the leader writes Nodes.
func (p *Provider) NeedLeaderElection() bool { return true }

// Start calls Tick whenever work is due, until ctx ends.
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

// outage is a series of failures with the same cause.
type outage struct {
	failures int
	cause    string
}

// tell logs a change of the cause only, because one cause may keep many machines from being shown, again and again.
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

// wait returns the time until the next attempt after a failure.
func (o *outage) wait() time.Duration {
	return min(retryAfter<<min(o.failures-1, 6), retryAtMost)
}

// sleep waits until a time, or until a machine is launched or terminated. A zero time means never.
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

// Tick creates the Nodes of machines that have booted, deletes the Nodes of machines that are gone, and carries out faults of Nodes. It
// returns the time of its next call, the zero time if no work is coming. The next call repeats failed work.
func (p *Provider) Tick(ctx context.Context) (next time.Time, err error) {
	p.ticking.Lock()
	defer p.ticking.Unlock()
	if err := p.takeIn(ctx); err != nil {
		return time.Time{}, err
	}
	// Next is called before the due work is collected. So work that falls due in between is done here or is next, and work that falls due
	// later is next.
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

// runAll runs all functions, even if some fail, and returns their errors.
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
	_ = group.Wait() // no function above returns an error
	return errors.Join(failed...)
}

// show creates the Node of a machine. If the claim of the machine is gone, show stops the machine instead.
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
		return nil // the controllers will terminate the machine
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

// ownNode finds the Node that a machine already has. It has one if the answer to the creation was lost.
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
		// A conflict means that another Node has the name now.
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

// goes reports whether a Node is already being deleted. This is the case after a drain.
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

// watched lists the machines that boot, the machines with a Node, and the machines with two Nodes.
func (p *Provider) watched() (booting, nodes, seconds []engine.MachineID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.booting)), slices.Collect(maps.Keys(p.nodes)), slices.Collect(maps.Keys(p.seconds))
}
