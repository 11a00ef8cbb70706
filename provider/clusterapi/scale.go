package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/batch"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// order asks for a Machine of a MachineDeployment, or only for a new count of its replicas.
type order struct {
	// key names the MachineDeployment.
	key string
	// claim is the claim that needs the Machine, nil to count only.
	claim *v1.NodeClaim
}

// errFull means that a MachineDeployment makes no more machines.
var errFull = errors.New("the MachineDeployment takes no more replicas")

// tries is the number of attempts to count and write replicas if other programs write to the MachineDeployment in between.
const tries = 5

// scale binds Machines to the claims of one group, and sets the MachineDeployment's replicas. The result of a claim that has to wait is nil.
func (p *Provider) scale(ctx context.Context, _ string, orders []order) []batch.Result[*contract.Machine] {
	results := make([]batch.Result[*contract.Machine], len(orders))
	err := errors.New("never tried")
	for try := 0; try < tries && err != nil; try++ {
		if err = p.scaleOnce(ctx, orders, results); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		for i := range results {
			if results[i].Value == nil && results[i].Err == nil {
				results[i].Err = fmt.Errorf("scale MachineDeployment %s: %w", orders[0].key, err)
			}
		}
	}
	return results
}

func (p *Provider) scaleOnce(ctx context.Context, orders []order, results []batch.Result[*contract.Machine]) error {
	m, err := p.management()
	if err != nil {
		return err
	}
	key := orders[0].key
	d, c, err := p.census(ctx, m, key)
	if apierrors.IsNotFound(err) {
		for i, o := range orders {
			if results[i].Err = err; o.claim != nil {
				results[i].Err = errFull
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	waiting, err := p.waitingFor(ctx, key, c)
	if err != nil {
		return err
	}
	for _, o := range orders { // these claims are admitted below, if there is room
		if o.claim != nil && !p.isWaiting(key, o.claim.UID) {
			delete(waiting, o.claim.UID)
		}
	}
	for i, o := range orders {
		if o.claim == nil || results[i].Value != nil || results[i].Err != nil {
			continue
		}
		machine := c.bound[o.claim.UID]
		if machine == nil && len(c.free) > 0 {
			machine = c.free[0]
			if err := p.bind(ctx, m, machine, o.claim); err != nil {
				return err
			}
			c.free, c.bound[o.claim.UID] = c.free[1:], machine
		}
		if machine != nil {
			results[i].Value = machine
			p.stopWaiting(key, o.claim.UID)
			delete(waiting, o.claim.UID)
			continue
		}
		if !waiting[o.claim.UID] && c.room(len(waiting)) <= 0 || c.blocked != "" {
			p.stopWaiting(key, o.claim.UID)
			results[i].Err = errFull
			continue
		}
		p.startWaiting(key, o.claim.UID)
		waiting[o.claim.UID] = true
	}
	if c.blocked != "" {
		return nil // a change would have no effect; the replicas are counted again once that has ended
	}
	return p.setReplicas(ctx, m, d, c, len(waiting))
}

// setReplicas writes the wanted number of replicas, if it has changed.
func (p *Provider) setReplicas(ctx context.Context, m *Management, d *contract.MachineDeployment, c *census, waiting int) error {
	want := c.target(waiting)
	if want < c.replicas {
		want = min(c.replicas, max(want, c.lowest(d, p.heldWhy(assortment.Key(d)) != "")))
	}
	if now := max(want, min(c.replicas, c.lowestOf(p.isSettled))); now != c.replicas || d.Spec.Replicas == nil {
		if err := p.cfg.May("scale MachineDeployment " + assortment.Key(d)); err != nil {
			return err
		}
		// The resourceVersion makes the patch fail if another program has written in between.
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, d.ResourceVersion, now)
		if err := m.Live.SubResource("scale").Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)), client.WithSubResourceBody(&autoscalingv1.Scale{})); err != nil {
			return err
		}
		log.FromContext(ctx).Info("scaled MachineDeployment", "MachineDeployment", assortment.Key(d), "from", c.replicas, "to", now, "waiting", waiting)
	}
	// If replicas must not be lowered for marked Machines, because other Machines take their place, the Machines are deleted directly.
	for _, machine := range c.marked[:min(len(c.marked), max(0, int(want)-c.live()))] {
		if err := p.deleteMachine(ctx, m, machine); err != nil {
			return err
		}
	}
	return nil
}

// isSettled reports whether Cluster API has had time to see the mark on a Machine. Marks of other programs count as seen, as do marks with a
// time in the future: another process with a fast clock wrote them, and waiting for that time would keep the Machine too long.
func (p *Provider) isSettled(machine *contract.Machine) bool {
	marked, err := time.Parse(time.RFC3339, machine.Annotations[contract.DeleteAnnotation])
	age := p.cfg.Clock.Since(marked)
	return err != nil || age < 0 || age >= p.cfg.Settle
}

func (p *Provider) deleteMachine(ctx context.Context, m *Management, machine *contract.Machine) error {
	if err := p.cfg.May("delete Machine " + machine.Namespace + "/" + machine.Name); err != nil {
		return err
	}
	return client.IgnoreNotFound(m.Live.Delete(ctx, machine, client.Preconditions{UID: &machine.UID}))
}

// census reads the state of a MachineDeployment now, without the cache.
func (p *Provider) census(ctx context.Context, m *Management, key string) (*contract.MachineDeployment, *census, error) {
	namespace, name, _ := strings.Cut(key, "/")
	d := &contract.MachineDeployment{}
	if err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
		return nil, nil, err
	}
	own := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{contract.DeploymentNameLabel: name}}
	var machines contract.MachineList
	if err := m.Live.List(ctx, &machines, own...); err != nil {
		return nil, nil, err
	}
	var sets contract.MachineSetList
	if err := m.Live.List(ctx, &sets, own...); err != nil {
		return nil, nil, err
	}
	owners, err := p.karpenterOwners(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := take(d, pointers(machines.Items), owners)
	cluster := &contract.Cluster{}
	if err := m.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.Spec.ClusterName}, cluster); apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return nil, nil, err
	}
	c.blocked = assortment.Blocked(d, cluster)
	for i := range sets.Items {
		if s := &sets.Items[i]; s.Spec.Replicas != nil && *s.Spec.Replicas > 0 {
			c.sets = append(c.sets, s)
		}
	}
	slices.SortFunc(c.sets, func(a, b *contract.MachineSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return d, c, nil
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// karpenterOwners returns the UIDs of claims that name their Machine in Karpenter's annotation, by the Machine's key.
func (p *Provider) karpenterOwners(ctx context.Context) (map[string]types.UID, error) {
	var claims v1.NodeClaimList
	if err := p.cfg.Client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	owners := map[string]types.UID{}
	for i := range claims.Items {
		if key := claims.Items[i].Annotations[contract.KarpenterMachineAnnotation]; strings.Contains(key, "/") {
			owners[key] = claims.Items[i].UID
		}
	}
	return owners, nil
}

// waitingFor returns the claims that wait for a Machine of a MachineDeployment: claims that this process launches, and claims whose
// annotation, from an earlier process, names the MachineDeployment.
func (p *Provider) waitingFor(ctx context.Context, key string, c *census) (map[types.UID]bool, error) {
	var claims v1.NodeClaimList
	if err := p.cfg.Client.List(ctx, &claims, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	out, there := map[types.UID]bool{}, map[types.UID]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.DeletionTimestamp != nil {
			continue
		}
		there[claim.UID] = true
		if claim.Annotations[v1.MachineDeploymentAnnotationKey] == key && claim.Status.ProviderID == "" && c.bound[claim.UID] == nil {
			out[claim.UID] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.waiting[key] {
		if !there[uid] {
			delete(p.waiting[key], uid)
		} else if c.bound[uid] == nil {
			out[uid] = true
		}
	}
	return out, nil
}

func (p *Provider) startWaiting(key string, claim types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[key] == nil {
		p.waiting[key] = map[types.UID]time.Time{}
	}
	if _, known := p.waiting[key][claim]; !known {
		p.waiting[key][claim] = p.cfg.Clock.Now()
	}
}

func (p *Provider) isWaiting(key string, claim types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, waits := p.waiting[key][claim]
	return waits
}

func (p *Provider) stopWaiting(key string, claim types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting[key], claim)
}

// heldWhy returns the reason why a MachineDeployment is not asked for machines for now, "" if it may be asked.
func (p *Provider) heldWhy(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held, ok := p.held[key]; ok && p.cfg.Clock.Now().Before(held.until) {
		return held.why
	}
	return ""
}

// bind binds a Machine to a claim. It fails if another program wrote to the Machine in between.
func (p *Provider) bind(ctx context.Context, m *Management, machine *contract.Machine, claim *v1.NodeClaim) error {
	cluster, err := p.clusterUID(ctx)
	if err != nil {
		return err
	}
	before := client.MergeFromWithOptions(machine.DeepCopy(), client.MergeFromWithOptimisticLock{})
	annotate(machine, v1.MachineClaimAnnotationKey, claim.Name)
	annotate(machine, v1.MachineClaimUIDAnnotationKey, string(claim.UID))
	annotate(machine, v1.MachineClusterAnnotationKey, cluster)
	for key, value := range claim.Labels {
		if assortment.HandedOn(key) && key != contract.MemberLabel {
			if machine.Labels == nil {
				machine.Labels = map[string]string{}
			}
			machine.Labels[key] = value
		}
	}
	if err := p.patchMachine(ctx, m, machine, before); err != nil {
		return fmt.Errorf("write on Machine %s/%s that it is that of NodeClaim %s: %w", machine.Namespace, machine.Name, claim.Name, err)
	}
	return nil
}

func (p *Provider) patchMachine(ctx context.Context, m *Management, machine *contract.Machine, patch client.Patch) error {
	if err := p.cfg.May("write to Machine " + machine.Namespace + "/" + machine.Name); err != nil {
		return err
	}
	return m.Live.Patch(ctx, machine, patch)
}

func annotate(o client.Object, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}
