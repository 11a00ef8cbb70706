package kwok

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/simulated"
)

// carryOutFaults carries out the faults of Nodes. It reports whether faults remain to be carried out.
func (p *Provider) carryOutFaults(ctx context.Context) (again bool, err error) {
	for _, m := range p.cloud.NodeFaults() {
		done, failed := p.carryOut(ctx, m)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("fault %s of the node of machine %s: %w", m.Fault.What, m.Machine, failed))
		}
		if !done || failed != nil {
			again = true
			continue
		}
		p.cloud.Settle(m.ID)
	}
	return again, err
}

// carryOut carries out a fault on a machine's Node. It returns false if the Node is not ready for the fault yet.
func (p *Provider) carryOut(ctx context.Context, m simulated.NodeFault) (done bool, err error) {
	uid, shown := p.nodeOf(m.Machine)
	if !shown {
		return false, nil
	}
	node := &corev1.Node{}
	err = p.reader.Get(ctx, types.NamespacedName{Name: nodeName(m.Machine)}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if err != nil || node.UID != uid || node.DeletionTimestamp != nil {
		return true, nil // the Node is being deleted or gone, so the fault cannot happen any more
	}
	switch m.Fault.What {
	case simulated.FaultLabel:
		if node.Labels[v1.RegisteredLabelKey] != "true" {
			return false, nil // until then, the controllers add the labels of its claim
		}
		before := client.MergeFrom(node.DeepCopy())
		m.Relabel(node)
		if b, found := p.cloud.Boot(m.Machine); found && !b.Ready.IsZero() {
			handOver(node)
		}
		return true, p.client.Patch(ctx, node, before)
	case simulated.FaultDevices:
		before := client.MergeFrom(node.DeepCopy())
		m.Show(node)
		return true, p.client.Status().Patch(ctx, node, before)
	case simulated.FaultAttach:
		return true, client.IgnoreAlreadyExists(p.client.Create(ctx, m.CSINode(node)))
	case simulated.FaultSlices:
		err := p.client.Create(ctx, m.Slice(node))
		if apimeta.IsNoMatchError(err) { // an old cluster does not have ResourceSlices
			return true, nil
		}
		return err == nil || apierrors.IsAlreadyExists(err), client.IgnoreAlreadyExists(err)
	case simulated.FaultSecond:
		return true, p.showSecond(ctx, m.Machine, node)
	}
	before := client.MergeFrom(node.DeepCopy())
	node.Finalizers = nil
	if err := p.client.Patch(ctx, node, before); err != nil {
		return false, err
	}
	if err := p.client.Delete(ctx, node, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, m.Machine)
	if m.Fault.What == simulated.FaultBare {
		p.booting[m.Machine] = true
	}
	return true, nil
}

// showSecond creates another Node like the first one, as its kubelet would register it.
func (p *Provider) showSecond(ctx context.Context, id engine.MachineID, first *corev1.Node) error {
	node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: string(id), Taints: []corev1.Taint{v1.UnregisteredTaint()}}}
	node.Name = first.Name + simulated.SecondSuffix
	node.Labels, node.Annotations = map[string]string{}, map[string]string{}
	for key, value := range first.Labels {
		if key != v1.RegisteredLabelKey && key != v1.InitializedLabelKey {
			node.Labels[key] = value
		}
	}
	node.Labels[corev1.LabelHostname] = node.Name
	for _, key := range []string{ClaimUIDAnnotationKey, fakeKey} {
		if value, found := first.Annotations[key]; found {
			node.Annotations[key] = value
		}
	}
	node.Status.Capacity, node.Status.Allocatable, node.Status.Phase = first.Status.Capacity, first.Status.Allocatable, corev1.NodePending
	if err := client.IgnoreAlreadyExists(p.client.Create(ctx, node)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seconds[id] = true
	return nil
}

// hideSecond deletes the second Node of a machine that is gone.
func (p *Provider) hideSecond(ctx context.Context, id engine.MachineID) error {
	node := &corev1.Node{}
	node.Name = nodeName(id) + simulated.SecondSuffix
	if err := p.client.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the second node of machine %s, which is gone: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seconds, id)
	return nil
}
