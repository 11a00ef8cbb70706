package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
	"tenon.sh/provider/offer"
)

const (
	// A launch looks for its Machine after pollFirst. The time between two looks then grows up to pollMost.
	pollFirst, pollMost = 100 * time.Millisecond, time.Second
	// reachAgain is the time that a launch waits if the management cluster does not answer.
	reachAgain = 5 * time.Second
	// blockedAfter is the time that a claim waits for a Machine that Cluster API cannot make for now.
	blockedAfter = time.Minute
	// heldFor is the time for which a MachineDeployment that made no Machine is not asked again.
	heldFor = 2 * time.Minute
)

// Launch does the same as LaunchNoted, but writes no annotations on the claim.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	return p.LaunchNoted(ctx, claim, class, func(context.Context, map[string]string) error { return nil })
}

// LaunchNoted gives the claim a Machine: a free one, or a new one. It notes the asked MachineDeployment on the claim, so that the next
// process after a crash counts the claim.
func (p *Provider) LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (engine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return engine.Machine{}, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	m, err := p.launch(ctx, claim, class, note)
	if err != nil {
		if pending := (*provider.PendingError)(nil); errors.As(err, &pending) {
			return engine.Machine{}, err
		}
		return engine.Machine{}, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	return m, nil
}

func (p *Provider) launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return engine.Machine{}, err
	}
	asked := claim.Annotations[v1.MachineDeploymentAnnotationKey]
	f, err := p.find(ctx, c)
	if err != nil {
		return engine.Machine{}, outlast(asked, err)
	}
	if problem := problemOf(c, f); problem != "" {
		return engine.Machine{}, &provider.ClassNotReadyError{Class: c.Name, Problem: problem}
	}
	candidates, tried, err := candidatesFor(f, class, claim)
	if err != nil {
		return engine.Machine{}, &provider.LaunchError{Reason: "NoMatchingOffering", Err: err}
	}
	cause := "NoMachineDeployment"
	for _, from := range candidates {
		if asked != from.Key {
			if from.Blocked != "" {
				cause = from.Blocked
				continue
			}
			if err := note(ctx, map[string]string{v1.MachineDeploymentAnnotationKey: from.Key}); err != nil {
				return engine.Machine{}, err
			}
			asked = from.Key
		}
		m, err := p.launchFrom(ctx, claim, from)
		if !errors.Is(err, errFull) {
			return m, outlast(asked, err)
		}
		cause = strings.TrimPrefix(err.Error(), errFull.Error()+": ")
	}
	return engine.Machine{}, &provider.SoldOutError{Offerings: tried, Cause: cause}
}

// outlast makes a claim wait if the management cluster does not answer and a MachineDeployment was already asked for it, because the claim's
// Machine may exist.
func outlast(asked string, err error) error {
	if asked == "" || err == nil || !isNoAnswer(err) {
		return err
	}
	return &provider.PendingError{What: fmt.Sprintf("a Machine of MachineDeployment %s is waited for, and the management cluster is out of reach: %v", asked, err), RetryAfter: reachAgain}
}

// isNoAnswer reports whether an error means that the API server gave no decision.
func isNoAnswer(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return errors.Is(err, errOutOfReach) || errors.As(err, new(*url.Error)) ||
		errors.As(err, &status) && (status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err))
}

// candidatesFor returns the MachineDeployments that may give the claim a machine: first the one that was asked already, then the others by
// price. `tried` has all offerings that the claim allows.
func candidatesFor(f *assortment.Selection, class provider.Class, claim *v1.NodeClaim) (candidates []*assortment.Machines, tried []engine.OfferingID, err error) {
	types, _ := assortment.Catalog(f.Machines)
	offers, err := offer.For(class.Corrected(types), claim)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range offers {
		if !slices.Contains(tried, o.OfferingID) {
			tried = append(tried, o.OfferingID)
		}
		for _, m := range f.Machines {
			if m.Type == o.InstanceType && m.Zone == o.Zone && m.CapacityType == o.CapacityType && !slices.Contains(candidates, m) &&
				agree(m.Labels, o.Labels) && kube.HasTaints(v1.CoreTaints(claim.Spec.Taints), m.Taints) {
				candidates = append(candidates, m)
			}
		}
	}
	asked := claim.Annotations[v1.MachineDeploymentAnnotationKey]
	_, corrected := claim.Annotations[v1.PriceOverlayAppliedAnnotationKey]
	slices.SortStableFunc(candidates, func(a, b *assortment.Machines) int {
		if (a.Key == asked) != (b.Key == asked) {
			if a.Key == asked {
				return -1
			}
			return 1
		}
		if corrected { // they are in the order of the corrected prices
			return 0
		}
		return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.Key, b.Key))
	})
	return candidates, tried, nil
}

// agree reports whether two sets of labels have no key with different values.
func agree(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; ok && other != value {
			return false
		}
	}
	return true
}

// launchFrom waits for a Machine of one MachineDeployment, and for the Machine's provider ID.
func (p *Provider) launchFrom(ctx context.Context, claim *v1.NodeClaim, from *assortment.Machines) (engine.Machine, error) {
	until := p.cfg.Clock.Now().Add(p.cfg.Wait)
	for poll := pollFirst; ; poll = min(2*poll, pollMost) {
		machine, err := p.scales.Do(ctx, from.Key, order{key: from.Key, claim: claim}, nil)
		if err != nil {
			return engine.Machine{}, err
		}
		what := fmt.Sprintf("a Machine of MachineDeployment %s is waited for", from.Key)
		if machine != nil {
			if why := machine.Failure(); why != "" {
				if err := p.remove(ctx, machine); err != nil {
					return engine.Machine{}, err
				}
				return engine.Machine{}, fmt.Errorf("%w: Machine %s/%s has failed: %s", errFull, machine.Namespace, machine.Name, why)
			}
			if machine.Spec.ProviderID != "" {
				p.know(machine)
				return describe(machine, from), nil
			}
			what = waitsFor(machine)
		} else if why, err := p.blockedSince(ctx, claim.UID, from.Key); err != nil || why != "" {
			if err != nil {
				return engine.Machine{}, err
			}
			return engine.Machine{}, fmt.Errorf("%w: %s", errFull, why)
		}
		if !p.cfg.Clock.Now().Before(until) {
			return engine.Machine{}, &provider.PendingError{What: what, RetryAfter: pollMost}
		}
		timer := p.cfg.Clock.NewTimer(poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return engine.Machine{}, ctx.Err()
		case <-timer.C():
		}
	}
}

// waitsFor describes the state of a Machine without a provider ID, for an event.
func waitsFor(m *contract.Machine) string {
	text := fmt.Sprintf("Machine %s/%s is %s", m.Namespace, m.Name, strings.ToLower(m.Status.Phase))
	for _, kind := range []string{"BootstrapConfigReady", "InfrastructureReady"} {
		if c := m.Condition(kind); c != nil && c.Status != string(corev1.ConditionTrue) && c.Message != "" {
			return text + ": " + c.Message
		}
	}
	return text
}

// blockedSince gives up a claim that has waited for blockedAfter, if Cluster API reports that it makes no Machine for it. For the time heldFor, Tenon then
// starts nothing on the MachineDeployment. blockedSince returns Cluster API's reason, or "" if the claim goes on waiting.
func (p *Provider) blockedSince(ctx context.Context, claim types.UID, key string) (why string, err error) {
	p.mu.Lock()
	since, waits := p.waiting[key][claim]
	p.mu.Unlock()
	now := p.cfg.Clock.Now()
	if !waits || now.Sub(since) < blockedAfter {
		return "", nil
	}
	m, err := p.management()
	if err != nil {
		return "", err
	}
	namespace, name, _ := strings.Cut(key, "/")
	var sets contract.MachineSetList
	if err := m.Live.List(ctx, &sets, client.InNamespace(namespace), client.MatchingLabels{contract.DeploymentNameLabel: name}); err != nil {
		return "", fmt.Errorf("list MachineSets of MachineDeployment %s: %w", key, err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if c := set.Condition("ScalingUp"); c != nil && strings.Contains(c.Message, "blocked") {
			why = c.Message
		} else if c := set.Condition("MachinesCreated"); c != nil && c.Status == string(corev1.ConditionFalse) {
			why = c.Message
		}
	}
	if why == "" {
		return "", nil
	}
	p.mu.Lock()
	p.held[key] = hold{why, now.Add(heldFor)}
	delete(p.waiting[key], claim)
	p.mu.Unlock()
	return why, nil
}

// describe returns a Machine as the controllers see it; from may be nil if its MachineDeployment cannot be read any more.
func describe(m *contract.Machine, from *assortment.Machines) engine.Machine {
	_, marked := m.Annotations[contract.DeleteAnnotation]
	out := engine.Machine{
		ID: idOf(m), Claim: m.Annotations[v1.MachineClaimAnnotationKey], ClaimUID: m.Annotations[v1.MachineClaimUIDAnnotationKey],
		Created: m.CreationTimestamp.Time, Leaving: marked || m.DeletionTimestamp != nil, Labels: map[string]string{},
		Annotations: map[string]string{v1.MachineDeploymentAnnotationKey: assortment.DeploymentOf(m)},
	}
	if hash := m.Labels[contract.TemplateHashLabel]; hash != "" {
		out.Annotations[v1.MachineTemplateAnnotationKey] = hash
	}
	if from == nil {
		return out
	}
	maps.Copy(out.Labels, from.Labels)
	out.Labels[corev1.LabelInstanceTypeStable] = from.Type
	out.Labels[corev1.LabelTopologyZone] = from.Zone
	out.Labels[v1.CapacityTypeLabelKey] = from.CapacityType
	out.Capacity = maps.Clone(from.Capacity)
	out.Allocatable = (&engine.InstanceType{Capacity: from.Capacity, Overhead: from.Overhead}).Allocatable()
	return out
}

// provisionalPrefix begins the ID of a Machine that has no provider ID yet. The rest is its namespace and name.
const provisionalPrefix = "clusterapi://"

func idOf(m *contract.Machine) engine.MachineID {
	if m.Spec.ProviderID != "" {
		return engine.MachineID(m.Spec.ProviderID)
	}
	return engine.MachineID(provisionalPrefix + m.Namespace + "/" + m.Name)
}

// know remembers the name of the Machine with a provider ID.
func (p *Provider) know(m *contract.Machine) {
	if m.Spec.ProviderID == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names[engine.MachineID(m.Spec.ProviderID)] = types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}
