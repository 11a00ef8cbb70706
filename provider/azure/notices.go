package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/machine"
)

const (
	// nodesEvery is the time between two looks at the nodes' conditions, in the cache. It is short, because a spot machine has half a minute.
	nodesEvery = time.Second
	// machinesEvery is the time between two looks at Azure's list of machines.
	machinesEvery = 30 * time.Second
	// asksAtOnce is the number of parallel calls for machines that no list shows any more, because Azure may take many away at once.
	asksAtOnce = 16
)

// Sources returns two sources of notices: conditions that a program on the machine writes on its Node, as node-problem-detector does, and
// Azure's list of machines. The first is needed because Azure announces events only inside the machine.
func (p *Provider) Sources() []provider.Source {
	return []provider.Source{
		{Name: "nodes", Notifier: &announced{Provider: p, done: map[string]bool{}}, Every: nodesEvery},
		{Name: "machines", Notifier: &vanished{Provider: p, gone: map[string]bool{}}, Every: machinesEvery},
	}
}

// announced is the source of notices from conditions of nodes.
type announced struct {
	*Provider

	mu sync.Mutex // guards done
	// done holds the acknowledged notices, as long as their conditions are true.
	done map[string]bool
}

// Notices returns the notices that are not acknowledged.
func (a *announced) Notices(ctx context.Context) (out []provider.Notice, err error) {
	var nodes corev1.NodeList
	if err := a.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes, to see which machines Azure takes away: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	still := map[string]bool{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if _, _, _, ours := machine.ParseID(engine.MachineID(n.Spec.ProviderID)); !ours {
			continue
		}
		kind := eventOf(n)
		if kind == "" {
			continue
		}
		id := "node/" + n.Name + "/" + string(n.UID) + "/" + kind
		if still[id] = a.done[id]; !still[id] {
			out = append(out, provider.Notice{ID: id, Machine: engine.MachineID(n.Spec.ProviderID), Kind: kind})
		}
	}
	a.done = still
	return out, nil
}

// Acknowledge records that a notice was acted on.
func (a *announced) Acknowledge(_ context.Context, n provider.Notice) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[n.ID] = true
	return nil
}

// Conditions of nodes for Azure's scheduled events. The reason of the second names the event.
const (
	conditionPreemption = "PreemptionScheduled"
	conditionEvent      = "VMEventScheduled"
)

// eventOf returns the kind of the scheduled event of a node's machine, "" if none ends the machine.
func eventOf(n *corev1.Node) string {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == conditionPreemption, c.Type == conditionEvent && strings.HasPrefix(c.Reason, "Preempt"):
			return engine.NoticeSpotInterruption
		case c.Type != conditionEvent:
		case strings.HasPrefix(c.Reason, "Terminate"):
			return engine.NoticeTerminating
		case strings.HasPrefix(c.Reason, "Redeploy"), strings.HasPrefix(c.Reason, "Reboot"):
			return engine.NoticeScheduledChange
		}
		// A frozen machine continues after some seconds.
	}
	return ""
}

// vanished is the source of notices about machines that Azure has taken away, or that a user has deleted, without a condition on their nodes.
type vanished struct {
	*Provider

	mu sync.Mutex // guards gone
	// gone holds the machines that Azure does not have, by the IDs of their notices, as long as their claims exist, so that Azure is asked
	// once.
	gone map[string]bool
}

// Notices returns notices about machines of claims that Azure is deleting or does not have any more. They come again until the claims are
// deleted.
func (v *vanished) Notices(ctx context.Context) ([]provider.Notice, error) {
	claims, err := v.claims(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]*provider.Notice, len(claims))
	group, asking := errgroup.WithContext(ctx) // on the first error, the others stop, because their calls would fail too
	group.SetLimit(asksAtOnce)
	for i := range claims {
		group.Go(func() error {
			var err error
			found[i], err = v.notice(asking, &claims[i])
			return err
		})
	}
	err = group.Wait()
	var out []provider.Notice
	still := map[string]bool{}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range found {
		if n != nil {
			out = append(out, *n)
			still[n.ID] = v.gone[n.ID]
		}
	}
	v.gone = still
	return out, asThrottled(err)
}

// notice returns the notice about a claim's machine, nil for none.
func (v *vanished) notice(ctx context.Context, claim *v1.NodeClaim) (*provider.Notice, error) {
	name, err := v.named(engineID(claim))
	if err != nil || claim.DeletionTimestamp != nil { // machines of another group are not known here
		return nil, nil
	}
	kind := engine.NoticeTerminating
	if claim.Labels[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot {
		kind = engine.NoticeSpotInterruption
	}
	notice := &provider.Notice{ID: "machine/" + name + "/" + string(claim.UID), Machine: engineID(claim), Kind: kind}
	if v.isGone(notice.ID, false) {
		return notice, nil
	}
	m, err := v.machines.Seen(ctx, name)
	if errors.Is(err, machine.ErrOthers) {
		log.FromContext(ctx).Error(err, "whether the machine is still there is not told", "NodeClaim", claim.Name)
		return nil, nil
	}
	if errors.Is(err, provider.ErrGone) {
		v.isGone(notice.ID, true)
		return notice, nil
	}
	if err != nil || m.Phase != machine.Leaving {
		return nil, err
	}
	return notice, nil
}

// isGone reports whether Azure does not have the machine of a notice; now records that.
func (v *vanished) isGone(id string, now bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now {
		v.gone[id] = true
	}
	return v.gone[id]
}

// Acknowledge does nothing, because the claim is deleted.
func (v *vanished) Acknowledge(context.Context, provider.Notice) error { return nil }

func engineID(claim *v1.NodeClaim) engine.MachineID { return engine.MachineID(claim.Status.ProviderID) }
