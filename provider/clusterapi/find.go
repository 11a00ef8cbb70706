package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// found is what a class selects.
type found struct {
	// machines are what its MachineDeployments make, those that can be used, in order of key.
	machines []*assortment.Machines
	// deployments holds all that are selected, by key.
	deployments map[string]*contract.MachineDeployment
	// problems say of others why they cannot be used, notes what was passed over.
	problems, notes []string
	// clusters are the names of the Clusters that the selected ones belong to.
	clusters []string
}

// find reads what a class selects, from the cache.
func (p *Provider) find(ctx context.Context, class *clusterapiv1alpha1.ClusterAPINodeClass) (*found, error) {
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	selector, err := selectorOf(class)
	if err != nil {
		return nil, err
	}
	var list contract.MachineDeploymentList
	if err := m.Cached.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	machines, err := p.machinesByDeployment(ctx, m)
	if err != nil {
		return nil, err
	}
	f := &found{deployments: map[string]*contract.MachineDeployment{}}
	for i := range list.Items {
		d := &list.Items[i]
		if !selects(class, selector, d) {
			continue
		}
		f.deployments[assortment.Key(d)] = d
		if !slices.Contains(f.clusters, d.Spec.ClusterName) {
			f.clusters = append(f.clusters, d.Spec.ClusterName)
		}
		source, err := p.sourceOf(ctx, m, d, machines[assortment.Key(d)])
		if err != nil {
			return nil, err
		}
		made, err := assortment.Read(source, class, builtIn)
		if err != nil {
			f.problems = append(f.problems, fmt.Sprintf("MachineDeployment %s: %v", assortment.Key(d), err))
			continue
		}
		p.block(made, source)
		for _, note := range made.Notes {
			f.notes = append(f.notes, fmt.Sprintf("MachineDeployment %s: %s", made.Key, note))
		}
		c := take(d, machines[made.Key], nil)
		if n := len(slices.DeleteFunc(c.free, p.isYoung)); n > 0 {
			f.notes = append(f.notes, fmt.Sprintf("MachineDeployment %s: %d of its Machines belong to no NodeClaim: the next one that is launched takes one; those that no pods run on go, others stay outside of every NodePool", made.Key, n))
		}
		if bound := len(c.bound); d.Spec.Replicas != nil && int(*d.Spec.Replicas) < bound {
			f.notes = append(f.notes, fmt.Sprintf("MachineDeployment %s: spec.replicas is %d, and %d of its Machines belong to NodeClaims: somebody else sets it; let GitOps leave replicas out", made.Key, *d.Spec.Replicas, bound))
		}
		f.machines = append(f.machines, made)
	}
	slices.Sort(f.clusters)
	slices.Sort(f.problems)
	slices.SortFunc(f.machines, func(a, b *assortment.Machines) int { return cmp.Compare(a.Key, b.Key) })
	return f, nil
}

// selectorOf is what the labels of the class's MachineDeployments have to meet, everything if the class says nothing.
func selectorOf(class *clusterapiv1alpha1.ClusterAPINodeClass) (labels.Selector, error) {
	if class.Spec.ScalableResourceSelector == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(class.Spec.ScalableResourceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.scalableResourceSelector: %w", err)
	}
	return selector, nil
}

// selects says whether a MachineDeployment is one of the class's.
func selects(class *clusterapiv1alpha1.ClusterAPINodeClass, selector labels.Selector, d *contract.MachineDeployment) bool {
	member, labelled := d.Labels[contract.MemberLabel]
	return labelled && member == "" && selector.Matches(labels.Set(d.Labels)) &&
		(class.Spec.ClusterName == "" || d.Spec.ClusterName == class.Spec.ClusterName) &&
		(len(class.Spec.Namespaces) == 0 || slices.Contains(class.Spec.Namespaces, d.Namespace))
}

// machinesByDeployment lists all Machines of MachineDeployments from the cache, which are not to be changed.
func (p *Provider) machinesByDeployment(ctx context.Context, m *Management) (map[string][]*contract.Machine, error) {
	var list contract.MachineList
	if err := m.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	out := map[string][]*contract.Machine{}
	for i := range list.Items {
		machine := &list.Items[i]
		if key := deploymentOf(machine); key != "" {
			out[key] = append(out[key], machine)
		}
	}
	return out, nil
}

// deploymentOf is the key of a Machine's MachineDeployment, "" if it has none.
func deploymentOf(m *contract.Machine) string {
	if name := m.Labels[contract.DeploymentNameLabel]; name != "" {
		return m.Namespace + "/" + name
	}
	return ""
}

// sourceOf gathers what is known about the machines of a MachineDeployment.
func (p *Provider) sourceOf(ctx context.Context, m *Management, d *contract.MachineDeployment, machines []*contract.Machine) (*assortment.Source, error) {
	s := &assortment.Source{Deployment: d}
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
	slices.SortFunc(machines, func(a, b *contract.Machine) int { return strings.Compare(a.Name, b.Name) })
	for _, machine := range machines {
		if domain := machine.Status.FailureDomain; domain != "" && !slices.Contains(s.FailureDomains, domain) {
			s.FailureDomains = append(s.FailureDomains, domain)
		}
		if name := machine.Status.NodeRef.Name; s.Node == nil && name != "" {
			node := &corev1.Node{}
			err := p.cfg.Client.Get(ctx, client.ObjectKey{Name: name}, node)
			if err == nil && node.Spec.ProviderID == machine.Spec.ProviderID && len(node.Status.Capacity) > 0 {
				s.Node = node
			} else if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read Node %s: %w", name, err)
			}
		}
	}
	return s, nil
}

// templateOf is the infrastructure template of a MachineDeployment, read at most once a minute; nil if it is not there.
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

// templateAge is how long a template is believed: they are not meant to change, and their status says more after a while.
const templateAge = time.Minute

// readAt is a template, and when it was read.
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
	if meta.IsNoMatchError(err) { // the MachineDeployment may be described by annotations all the same
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

// builtIn finds an instance type of EC2. Those of Azure are not looked up: their figures are those of AKS.
func builtIn(machineType string) *engine.InstanceType { return ec2Types()[machineType] }

var ec2Types = sync.OnceValue(func() map[string]*engine.InstanceType {
	out := map[string]*engine.InstanceType{}
	types := catalog.AWS()
	for i := range types {
		out[types[i].Name] = &types[i]
	}
	return out
})

// block says of machines that cannot be had now why.
func (p *Provider) block(made *assortment.Machines, s *assortment.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, waits := p.held[made.Key]
	replicas := s.Deployment.Spec.Replicas
	switch {
	case made.Blocked != "":
	case managed(s) != "":
		made.Blocked = managed(s)
	case waits && p.cfg.Clock.Now().Before(held.until):
		made.Blocked = held.why
	case made.Max >= 0 && replicas != nil && *replicas >= made.Max:
		made.Blocked = fmt.Sprintf("it has %d replicas, and annotation %s allows no more", *replicas, contract.MaxSizeAnnotation)
	}
	if made.Zone == "" { // nothing tells zones apart in this cluster
		made.Zone = s.Deployment.Spec.ClusterName
	}
}

// managed says who else sets the replicas of a MachineDeployment, "" if nobody does.
func managed(s *assortment.Source) string {
	if _, owned := s.Deployment.Labels[contract.TopologyOwnedLabel]; !owned || s.Cluster == nil || s.Cluster.Spec.Topology == nil {
		return ""
	}
	name := s.Deployment.Labels[contract.TopologyNameLabel]
	for _, t := range s.Cluster.Spec.Topology.Workers.MachineDeployments {
		if t.Name == name && t.Replicas != nil {
			return fmt.Sprintf("Cluster %s sets its replicas (spec.topology.workers.machineDeployments, %s): remove replicas there", s.Cluster.Name, name)
		}
	}
	return ""
}
