package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// This file reads Cluster API's objects. The provider's own code determines the machines that MachineDeployments make.

// clusterAPI holds Cluster API's objects and the relations between them.
type clusterAPI struct {
	deployments []*contract.MachineDeployment
	clusters    []*contract.Cluster
	sets        []*contract.MachineSet
	machines    []*contract.Machine
	templates   []*unstructured.Unstructured

	nodes map[string]*corev1.Node // by name
	of    map[string][]*contract.Machine
	// selected are the keys of MachineDeployments that a class selects. others are the reasons why no class selects the rest.
	selected map[string]bool
	others   map[string]string
	// missing are the Clusters and templates that MachineDeployments name and that are not in the files.
	missing struct{ clusters, templates []string }
}

// Made describes the machines that MachineDeployments make.
type Made struct {
	InstanceTypes []engine.InstanceType
	// Problem is the reason why no machine can be made, "" if there is none. Notes lists omissions and assumptions.
	Problem string
	Notes   []string
}

func (m *manifest) clusterAPIAdder(kind string) func(*unstructured.Unstructured) error {
	switch kind {
	case "MachineDeployment." + contract.Group:
		return func(u *unstructured.Unstructured) error { return decodePart(u, &m.capi.deployments) }
	case "Cluster." + contract.Group:
		return func(u *unstructured.Unstructured) error { return decodePart(u, &m.capi.clusters) }
	case "MachineSet." + contract.Group:
		return func(u *unstructured.Unstructured) error { return decodePart(u, &m.capi.sets) }
	case "Machine." + contract.Group:
		return func(u *unstructured.Unstructured) error { return decodePart(u, &m.capi.machines) }
	}
	if name, _, _ := strings.Cut(kind, "."); strings.HasSuffix(name, "MachineTemplate") { // of any infrastructure provider
		return func(u *unstructured.Unstructured) error {
			m.capi.templates = append(m.capi.templates, u)
			return nil
		}
	}
	return nil
}

// decodePart converts an object of which only some fields are read, and adds it to a list.
func decodePart[T any](u *unstructured.Unstructured, to *[]*T) error {
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return wrongType(u, new(T), err)
	}
	*to = append(*to, object)
	return nil
}

// match relates Machines to nodes. If a node's Machine is not in the files, match uses the node's annotations, which Cluster API writes.
func (c *clusterAPI) match(s *engine.Snapshot) {
	c.nodes, c.of = map[string]*corev1.Node{}, map[string][]*contract.Machine{}
	c.selected, c.others = map[string]bool{}, map[string]string{}
	byID := map[string]*corev1.Node{}
	for _, n := range s.Nodes {
		c.nodes[n.Name] = n
		if n.Spec.ProviderID != "" {
			byID[n.Spec.ProviderID] = n
		}
	}
	known := map[*corev1.Node]bool{}
	for _, machine := range c.machines {
		machine.Status.NodeRef.Name = "" // a node of another cluster may have this name
		if node := byID[machine.Spec.ProviderID]; node != nil {
			machine.Status.NodeRef.Name, known[node] = node.Name, true
		}
		c.add(machine)
	}
	for _, n := range kube.ByName(s.Nodes) {
		if known[n] {
			continue
		}
		machine := &contract.Machine{}
		machine.Namespace, machine.Name = n.Annotations[contract.NodeNamespaceAnnotation], n.Annotations[contract.KarpenterMachineAnnotation]
		machine.Spec.ProviderID, machine.Status.NodeRef.Name = n.Spec.ProviderID, n.Name
		machine.Labels = map[string]string{contract.DeploymentNameLabel: c.maker(machine.Namespace, n.Annotations[contract.NodeOwnerAnnotation])}
		c.add(machine)
	}
}

func (c *clusterAPI) add(machine *contract.Machine) {
	if key := assortment.DeploymentOf(machine); key != "" {
		c.of[key] = append(c.of[key], machine)
	}
}

// maker returns the name of the MachineDeployment of a MachineSet. If the MachineSet is not in the files, its name is the MachineDeployment's
// name and a suffix.
func (c *clusterAPI) maker(namespace, set string) string {
	for _, s := range c.sets {
		if s.Namespace == namespace && s.Name == set {
			return s.Labels[contract.DeploymentNameLabel]
		}
	}
	name := set[:max(0, strings.LastIndex(set, "-"))]
	if slices.ContainsFunc(c.deployments, func(d *contract.MachineDeployment) bool { return d.Namespace == namespace && d.Name == name }) {
		return name
	}
	return ""
}

// eachNode visits the nodes of the given MachineDeployments.
func (c *clusterAPI) eachNode(made []*assortment.Machines, visit func(*corev1.Node, *assortment.Machines)) {
	for _, m := range made {
		for _, machine := range c.of[m.Key] {
			if node := c.nodes[machine.Status.NodeRef.Name]; node != nil {
				visit(node, m)
			}
		}
	}
}

// labelMachines labels nodes with the properties of their MachineDeployments, as the controller would. It does not change existing labels.
func (m *manifest) labelMachines() {
	selection, err := assortment.Select(&clusterapiv1alpha1.ClusterAPINodeClass{}, m.capi.deployments, m.sourceOf, catalog.EC2Type)
	if err != nil {
		return // a later reader reports the error
	}
	silent := 0
	m.capi.eachNode(selection.Machines, func(n *corev1.Node, made *assortment.Machines) {
		id := inventory.MachineOffering(n.Labels)
		if id.InstanceType == "" || id.Zone == "" {
			silent++
		}
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		_, name, _ := strings.Cut(made.Key, "/")
		for key, value := range map[string]string{
			corev1.LabelInstanceTypeStable: cmp.Or(id.InstanceType, made.Type), corev1.LabelTopologyZone: cmp.Or(id.Zone, made.Zone),
			v1.CapacityTypeLabelKey: made.CapacityType, corev1.LabelArchStable: made.Labels[corev1.LabelArchStable],
			corev1.LabelOSStable: made.Labels[corev1.LabelOSStable], contract.DeploymentNameLabel: name,
		} {
			if n.Labels[key] == "" {
				n.Labels[key] = value
			}
		}
	})
	m.capi.missing.clusters, m.capi.missing.templates = nil, nil // they have no consequences yet
	if silent > 0 {
		m.note("the instance type or zone of %s comes from MachineDeployments", engine.Plural(silent, "node"))
	}
}

// sourceOf collects the documents about a MachineDeployment.
func (m *manifest) sourceOf(d *contract.MachineDeployment) (*assortment.Source, error) {
	s := &assortment.Source{Deployment: d, Cluster: m.clusterOf(d), Template: m.templateOf(d)}
	for _, set := range m.capi.sets {
		if set.Namespace+"/"+set.Labels[contract.DeploymentNameLabel] == s.Key() {
			s.Sets = append(s.Sets, set)
		}
	}
	return s, s.Observe(m.capi.of[s.Key()], func(machine *contract.Machine) (*corev1.Node, error) {
		return m.capi.nodes[machine.Status.NodeRef.Name], nil
	})
}

// clusterOf returns the Cluster of a MachineDeployment. If it is not in the files, clusterOf assumes a Cluster without problems.
func (m *manifest) clusterOf(d *contract.MachineDeployment) *contract.Cluster {
	for _, c := range m.capi.clusters {
		if c.Namespace == d.Namespace && c.Name == d.Spec.ClusterName {
			return c
		}
	}
	m.capi.missing.clusters = append(m.capi.missing.clusters, "Cluster "+d.Namespace+"/"+d.Spec.ClusterName)
	return &contract.Cluster{}
}

func (m *manifest) templateOf(d *contract.MachineDeployment) *unstructured.Unstructured {
	ref := d.Spec.Template.Spec.InfrastructureRef
	namespace := cmp.Or(ref.Namespace, d.Namespace)
	for _, u := range m.capi.templates {
		if u.GroupVersionKind().GroupKind() == ref.GroupKind() && u.GetNamespace() == namespace && u.GetName() == ref.Name {
			return u
		}
	}
	if ref.GroupKind() != (schema.GroupKind{}) && ref.Name != "" {
		m.capi.missing.templates = append(m.capi.missing.templates, ref.Kind+" "+namespace+"/"+ref.Name)
	}
	return nil
}

// clusterAPITypes sets the class's instance types to the machines of the MachineDeployments that it selects.
func (m *manifest) clusterAPITypes(class *engine.Class) {
	object := &clusterapiv1alpha1.ClusterAPINodeClass{}
	var err error
	if u := m.classNamed(class.Ref); u != nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object)
	}
	var selected []*contract.MachineDeployment
	var others map[string]string
	if err == nil {
		selected, others, err = assortment.Selected(object, m.capi.deployments)
	}
	var selection *assortment.Selection
	if err == nil {
		selection, err = assortment.Select(object, selected, m.sourceOf, catalog.EC2Type)
	}
	notReady := func(why any) string {
		return fmt.Sprintf("%s %s is not ready: %v", class.Ref.Kind, class.Ref.Name, why)
	}
	if err != nil {
		class.Problem = notReady(err)
		return
	}
	for key := range selection.Deployments {
		m.capi.selected[key] = true
	}
	for key, why := range others {
		m.capi.others[key] = cmp.Or(m.capi.others[key], why)
	}
	problem := selection.Problem()
	if problem == "" {
		class.Traits = selection.Traits(object, m.capi.sets)
	} else {
		class.Problem = cmp.Or(class.Problem, notReady(problem))
	}
	for _, remark := range m.capi.remarks(selection) {
		if !strings.Contains(problem, remark) {
			m.note("%s", remark)
		}
	}
	class.InstanceTypes = m.capi.types(selection)
	m.note("instance types of %s %s: what its MachineDeployments make, %d of %d in the files", class.Ref.Kind, class.Ref.Name, len(selection.Machines), len(m.capi.deployments))
}

// mostMissing is the largest number of missing objects that a note names.
const mostMissing = 5

// remarks returns the remarks about a new selection.
func (c *clusterAPI) remarks(selection *assortment.Selection) (out []string) {
	say := func(names []string, singular, plural string) {
		slices.Sort(names)
		switch names = slices.Compact(names); len(names) {
		case 0:
		case 1:
			out = append(out, names[0]+singular)
		default:
			out = append(out, engine.AtMost(names, mostMissing)+plural)
		}
	}
	say(c.missing.clusters, " is not in the files: taken to be there, and not paused", " are not in the files: taken to be there, and not paused")
	say(c.missing.templates, " is not in the files: what it says is not known", " are not in the files: what they say is not known")
	c.missing.clusters, c.missing.templates = nil, nil
	return append(out, selection.Remarks()...)
}

// types returns the instance types of a selection, with its existing nodes.
func (c *clusterAPI) types(selection *assortment.Selection) []engine.InstanceType {
	types := assortment.BoundedCatalog(selection.Machines)
	c.eachNode(selection.Machines, func(n *corev1.Node, made *assortment.Machines) {
		types = made.WithMachine(types, inventory.MachineOffering(n.Labels), n.Status.Capacity)
	})
	return types
}

// noteUnselected notes the reason for each MachineDeployment that no class selects.
func (m *manifest) noteUnselected() {
	for key, why := range m.capi.others {
		if !m.capi.selected[key] {
			m.note("MachineDeployment %s is selected by no class: %s", key, why)
		}
	}
}

// made describes the machines of all MachineDeployments in the nodes' Clusters. It returns nil if there are no MachineDeployments, or if
// there are NodePools.
func (m *manifest) made(s *engine.Snapshot) *Made {
	if len(m.capi.deployments) == 0 || len(s.NodePools) > 0 {
		return nil
	}
	out := &Made{}
	clusters := m.capi.clustersOfNodes(s)
	var ours []*contract.MachineDeployment
	for _, d := range m.capi.deployments {
		if len(clusters) > 0 && !slices.Contains(clusters, d.Spec.ClusterName) {
			out.Notes = append(out.Notes, fmt.Sprintf("MachineDeployment %s left out: it is of Cluster %s, of which there are no nodes", assortment.Key(d), d.Spec.ClusterName))
			continue
		}
		ours = append(ours, d)
	}
	selection, err := assortment.Select(&clusterapiv1alpha1.ClusterAPINodeClass{}, ours, m.sourceOf, catalog.EC2Type)
	switch {
	case err != nil:
		out.Problem = err.Error()
		return out
	case len(ours) == 0:
		out.Problem = "none is of a Cluster of the nodes: " + strings.Join(clusters, ", ")
	case len(selection.Clusters) > 1:
		out.Problem = fmt.Sprintf("there are MachineDeployments of the clusters %s: leave out those of other clusters than the nodes'", strings.Join(selection.Clusters, ", "))
	default:
		out.Problem = selection.Problem()
	}
	out.InstanceTypes = m.capi.types(selection)
	for _, made := range selection.Machines {
		if made.Full { // removed machines make room
			made.Blocked = ""
		}
		if made.Min > 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("MachineDeployment %s never has fewer than %s: the comparison does not count that", made.Key, engine.Plural(int(made.Min), "machine")))
		}
	}
	for _, remark := range m.capi.remarks(selection) {
		if !slices.Contains(out.Notes, remark) && !strings.Contains(out.Problem, remark) {
			out.Notes = append(out.Notes, remark)
		}
	}
	return out
}

// clustersOfNodes returns the names of the nodes' Clusters, as far as they are known.
func (c *clusterAPI) clustersOfNodes(s *engine.Snapshot) (out []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, n := range s.Nodes {
		add(n.Annotations[contract.NodeClusterAnnotation])
	}
	for _, d := range c.deployments {
		if slices.ContainsFunc(c.of[assortment.Key(d)], func(m *contract.Machine) bool { return c.nodes[m.Status.NodeRef.Name] != nil }) {
			add(d.Spec.ClusterName)
		}
	}
	return out
}
