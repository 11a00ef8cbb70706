package kwok

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

// takeIn finds the machines that were running before this process: machines with a Node, and launched machines that have no Node yet. It does
// so once.
func (p *Provider) takeIn(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return nil
	}
	nodes, claims := &corev1.NodeList{}, &v1.NodeClaimList{}
	if err := p.reader.List(ctx, nodes); err != nil {
		return fmt.Errorf("find the machines that run already: list nodes: %w", err)
	}
	if err := p.reader.List(ctx, claims); err != nil {
		return fmt.Errorf("find the machines that run already: list claims: %w", err)
	}
	for i := range nodes.Items {
		if node := &nodes.Items[i]; strings.HasPrefix(node.Spec.ProviderID, IDPrefix) {
			p.takeInNode(node)
		}
	}
	for i := range claims.Items {
		if err := p.takeInClaim(ctx, &claims.Items[i]); err != nil {
			return err
		}
	}
	for _, b := range p.cloud.Boots() {
		if _, hasNode := p.nodes[b.ID]; !hasNode {
			p.booting[b.ID] = true
		}
	}
	p.known = true
	return nil
}

// takeInNode adopts the machine of a Node. A Node that is being deleted still has its machine, because the Node is drained first.
func (p *Provider) takeInNode(node *corev1.Node) {
	id := engine.MachineID(node.Spec.ProviderID)
	if node.Name == nodeName(id)+simulated.SecondSuffix {
		p.seconds[id] = true
	}
	if nodeName(id) != node.Name || node.Annotations[ReleasedAnnotationKey] != "" {
		return // made by another program, or released
	}
	claim, uid := node.Name, node.Annotations[ClaimUIDAnnotationKey]
	for _, owner := range node.OwnerReferences {
		if owner.Kind == "NodeClaim" {
			claim, uid = owner.Name, string(owner.UID)
		}
	}
	m := engine.Machine{ID: id, Claim: claim, ClaimUID: uid, Labels: node.Labels, Capacity: node.Status.Capacity,
		Allocatable: node.Status.Allocatable, Created: node.CreationTimestamp.Time}
	p.cloud.Adopt(p.settled(m), simulated.OfferingOf(m), p.clock.Now())
	p.nodes[id] = node.UID
}

// takeInClaim adopts the machine of a claim that was launched and has not registered. If a registered claim has no Node, its machine went
// with the Node.
func (p *Provider) takeInClaim(ctx context.Context, claim *v1.NodeClaim) error {
	id := engine.MachineID(claim.Status.ProviderID)
	if _, hasNode := p.nodes[id]; hasNode || !strings.HasPrefix(string(id), IDPrefix) {
		return nil
	}
	if !claim.DeletionTimestamp.IsZero() || kube.HasJoined(claim) {
		return nil
	}
	created := claim.CreationTimestamp.Time
	if launched := v1.GetCondition(claim, v1.ConditionLaunched); launched != nil {
		created = launched.LastTransitionTime.Time
	}
	delay, err := p.delay(ctx, claim)
	if err != nil {
		return err
	}
	m := engine.Machine{ID: id, Claim: claim.Name, ClaimUID: string(claim.UID), Labels: claim.Labels,
		Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable, Created: created}
	registers := created.Add(delay + p.cloud.Profile().Boot.Fixed)
	p.cloud.Adopt(p.settled(m), simulated.OfferingOf(m), registers)
	return nil
}

// settled keeps only the labels that follow from the machine's instance type and offering.
func (p *Provider) settled(m engine.Machine) engine.Machine {
	offering, labels := simulated.OfferingOf(m), map[string]string{}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey} {
		labels[key] = m.Labels[key]
	}
	for _, t := range p.cloud.Catalog() {
		if t.Name != offering.InstanceType {
			continue
		}
		for key := range t.Labels {
			if value, found := m.Labels[key]; found {
				labels[key] = value
			}
		}
	}
	m.Labels = labels
	return m
}

// delay returns the time that the claim's class adds to the boot of its machine; 0 if the class is gone.
func (p *Provider) delay(ctx context.Context, claim *v1.NodeClaim) (time.Duration, error) {
	if claim.Spec.NodeClassRef == nil {
		return 0, nil
	}
	class := &kwokv1alpha1.KWOKNodeClass{}
	if err := p.reader.Get(ctx, types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}, class); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return 0, nil
		}
		return 0, fmt.Errorf("find the machines that run already: read the class of claim %s: %w", claim.Name, err)
	}
	return simulated.Delay(provider.Class{Object: class}), nil
}
