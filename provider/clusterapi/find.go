package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// find reads the MachineDeployments that a class selects, from the cache.
func (p *Provider) find(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (*assortment.Selection, error) {
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	var list contract.MachineDeploymentList
	if err := m.Cached.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	selected, _, err := assortment.Selected(class, pointers(list.Items))
	if err != nil {
		return nil, err
	}
	machines, err := p.machinesByDeployment(ctx, m)
	if err != nil {
		return nil, err
	}
	sets, err := p.setsByDeployment(ctx, m)
	if err != nil {
		return nil, err
	}
	f, err := assortment.Select(class, selected, func(d *contract.MachineDeployment) (*assortment.Source, error) {
		return p.sourceOf(ctx, m, d, machines[assortment.Key(d)], sets[assortment.Key(d)])
	}, catalog.EC2Type)
	if err != nil {
		return nil, err
	}
	for _, made := range f.Machines {
		d := f.Deployments[made.Key]
		c := take(d, machines[made.Key], nil)
		if n := len(slices.DeleteFunc(c.free, p.isYoung)); n > 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("MachineDeployment %s: %d of its Machines belong to no NodeClaim: the next one that is launched takes one, those that no pods run on go, and others get one if a NodePool could have started them; else they stay outside of every NodePool until their nodes are drained (kubectl drain)", made.Key, n))
		}
		if bound := len(c.bound); d.Spec.Replicas != nil && int(*d.Spec.Replicas) < bound {
			f.Notes = append(f.Notes, fmt.Sprintf("MachineDeployment %s: spec.replicas is %d, and %d of its Machines belong to NodeClaims: somebody else sets it; let GitOps leave replicas out", made.Key, *d.Spec.Replicas, bound))
		}
	}
	return f, nil
}

// machinesByDeployment lists all Machines of MachineDeployments from the cache. They must not be changed.
func (p *Provider) machinesByDeployment(ctx context.Context, m *Management) (map[string][]*contract.Machine, error) {
	var list contract.MachineList
	if err := m.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	out := map[string][]*contract.Machine{}
	for i := range list.Items {
		machine := &list.Items[i]
		if key := assortment.DeploymentOf(machine); key != "" {
			out[key] = append(out[key], machine)
		}
	}
	return out, nil
}

// setsByDeployment lists all MachineSets of MachineDeployments from the cache. They must not be changed.
func (p *Provider) setsByDeployment(ctx context.Context, m *Management) (map[string][]*contract.MachineSet, error) {
	var list contract.MachineSetList
	if err := m.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MachineSets: %w", err)
	}
	out := map[string][]*contract.MachineSet{}
	for i := range list.Items {
		key := list.Items[i].Namespace + "/" + list.Items[i].Labels[contract.DeploymentNameLabel]
		out[key] = append(out[key], &list.Items[i])
	}
	return out, nil
}

// sourceOf collects the known facts about the machines of a MachineDeployment.
func (p *Provider) sourceOf(ctx context.Context, m *Management, d *contract.MachineDeployment, machines []*contract.Machine, sets []*contract.MachineSet) (*assortment.Source, error) {
	s := &assortment.Source{Deployment: d, Sets: sets, Held: p.heldWhy(assortment.Key(d))}
	cluster := &contract.Cluster{}
	switch err := m.Cached.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Spec.ClusterName}, cluster); {
	case err == nil:
		s.Cluster = cluster
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read Cluster %s/%s: %w", d.Namespace, d.Spec.ClusterName, err)
	}
	var err error
	if s.Template, err = p.templateOf(ctx, m, d); err != nil {
		return nil, err
	}
	return s, s.Observe(machines, func(machine *contract.Machine) (*corev1.Node, error) {
		node, name := &corev1.Node{}, machine.Status.NodeRef.Name
		err := p.cfg.Client.Get(ctx, client.ObjectKey{Name: name}, node)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read Node %s: %w", name, err)
		}
		return node, nil
	})
}

// templateOf returns the infrastructure template of a MachineDeployment; nil if there is none. It reads the template at most once a minute.
func (p *Provider) templateOf(ctx context.Context, m *Management, d *contract.MachineDeployment) (*unstructured.Unstructured, error) {
	now, ref := p.cfg.Clock.Now(), d.Spec.Template.Spec.InfrastructureRef
	at := fmt.Sprint(d.Namespace, "/", ref)
	p.mu.Lock()
	known, ok := p.templates[at]
	p.mu.Unlock()
	if ok && now.Sub(known.read) < templateAge {
		return known.object, nil
	}
	object, err := readTemplate(ctx, m, d)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.templates, func(_ string, t readAt) bool { return now.Sub(t.read) > 10*templateAge })
	p.templates[at] = readAt{object, now}
	return object, nil
}

// templateAge is the time for which a template is kept. Templates should not change, but their status may get more fields.
const templateAge = time.Minute

// readAt is a template, and the time at which it was read.
type readAt struct {
	object *unstructured.Unstructured
	read   time.Time
}

func readTemplate(ctx context.Context, m *Management, d *contract.MachineDeployment) (*unstructured.Unstructured, error) {
	ref := d.Spec.Template.Spec.InfrastructureRef
	kind := ref.GroupKind()
	if ref.Name == "" || kind.Kind == "" {
		return nil, nil
	}
	mapping, err := m.Live.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) { // annotations may still describe the machines
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out in which version %s is served: %w", kind, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	err = m.Live.Get(ctx, client.ObjectKey{Namespace: cmp.Or(ref.Namespace, d.Namespace), Name: ref.Name}, object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", ref.Kind, d.Namespace, ref.Name, err)
	}
	return object, nil
}
