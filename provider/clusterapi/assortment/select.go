package assortment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi/contract"
)

// Selection is the result of a class's selection.
type Selection struct {
	// Machines are the machines of the selected MachineDeployments that can be used, ordered by key.
	Machines []*Machines
	// Deployments holds all selected MachineDeployments, by key.
	Deployments map[string]*contract.MachineDeployment
	// Problems says why other MachineDeployments cannot be used. Notes lists values that were ignored.
	Problems, Notes []string
	// Clusters are the names of the Clusters of the selected MachineDeployments.
	Clusters []string
}

// Selected lists the MachineDeployments that a class selects. others holds the reasons why the class does not select the rest, by key.
func Selected(class *clusterapiv1alpha1.ClusterAPINodeClass, all []*contract.MachineDeployment) (out []*contract.MachineDeployment, others map[string]string, err error) {
	selector := labels.Everything()
	if class.Spec.ScalableResourceSelector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(class.Spec.ScalableResourceSelector); err != nil {
			return nil, nil, fmt.Errorf("spec.scalableResourceSelector: %w", err)
		}
	}
	others = map[string]string{}
	for _, d := range all {
		member, labelled := d.Labels[contract.MemberLabel]
		switch {
		case !labelled || member != "":
			others[Key(d)] = fmt.Sprintf("it has no label %s with an empty value", contract.MemberLabel)
		case class.Spec.ClusterName != "" && d.Spec.ClusterName != class.Spec.ClusterName:
			others[Key(d)] = fmt.Sprintf("its Cluster is %s, and spec.clusterName of the class says %s", d.Spec.ClusterName, class.Spec.ClusterName)
		case len(class.Spec.Namespaces) > 0 && !slices.Contains(class.Spec.Namespaces, d.Namespace):
			others[Key(d)] = "its namespace is not one of spec.namespaces of the class"
		case !selector.Matches(labels.Set(d.Labels)):
			others[Key(d)] = "its labels do not meet spec.scalableResourceSelector of the class"
		default:
			out = append(out, d)
		}
	}
	return out, others, nil
}

// Select reads the machines of MachineDeployments. sourceOf returns the known facts about the machines of one.
func Select(class *clusterapiv1alpha1.ClusterAPINodeClass, selected []*contract.MachineDeployment, sourceOf func(*contract.MachineDeployment) (*Source, error), builtIn BuiltIn) (*Selection, error) {
	out := &Selection{Deployments: map[string]*contract.MachineDeployment{}}
	for _, d := range selected {
		key := Key(d)
		out.Deployments[key] = d
		if !slices.Contains(out.Clusters, d.Spec.ClusterName) {
			out.Clusters = append(out.Clusters, d.Spec.ClusterName)
		}
		source, err := sourceOf(d)
		if err != nil {
			return nil, err
		}
		made, err := Read(source, class, builtIn)
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("MachineDeployment %s: %v", key, err))
			continue
		}
		for _, note := range made.Notes {
			out.Notes = append(out.Notes, fmt.Sprintf("MachineDeployment %s: %s", key, note))
		}
		out.Machines = append(out.Machines, made)
	}
	slices.Sort(out.Clusters)
	slices.Sort(out.Problems)
	slices.SortFunc(out.Machines, func(a, b *Machines) int { return cmp.Compare(a.Key, b.Key) })
	return out, nil
}

// Problem returns the reason why no machines can be made with the class, "" if some can.
func (s *Selection) Problem() string {
	switch {
	case len(s.Deployments) == 0:
		return fmt.Sprintf("no MachineDeployment has the label %s with an empty value and is selected", contract.MemberLabel)
	case len(s.Clusters) > 1:
		return fmt.Sprintf("MachineDeployments of the clusters %s are selected: say in spec.clusterName which one this is", strings.Join(s.Clusters, ", "))
	case len(s.Machines) == 0:
		return strings.Join(s.Problems, "; ")
	}
	return ""
}

// Remarks lists problems and hints about the MachineDeployments, for the class's condition.
func (s *Selection) Remarks() []string {
	var out []string
	_, same := Catalog(s.Machines)
	for _, text := range slices.Concat(s.Problems, same, s.Notes) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, m := range s.Machines {
		if m.Blocked != "" {
			out = append(out, fmt.Sprintf("MachineDeployment %s makes no machines now: %s", m.Key, m.Blocked))
		}
		if m.Estimated {
			out = append(out, fmt.Sprintf("MachineDeployment %s: its price is estimated, %.4f USD per hour: set annotation %s, or spec.prices", m.Key, m.Price, contract.PriceAnnotation))
		}
		_, least := s.Deployments[m.Key].Annotations[contract.MinSizeAnnotation]
		if least && m.Max >= 0 {
			out = append(out, fmt.Sprintf("MachineDeployment %s has both size annotations: Cluster Autoscaler would scale it too if it runs here: give it another node group discovery", m.Key))
		}
	}
	return out
}

// Traits returns the properties of machines that have not drifted. A machine has drifted if the class does not select its MachineDeployment
// any more. It has drifted too if it was made from an old template and Cluster API does not replace it by itself; with drift policy Defer,
// every machine of an old template has drifted. The traits also name the MachineDeployments that roll out.
func (s *Selection) Traits(class *clusterapiv1alpha1.ClusterAPINodeClass, sets []*contract.MachineSet) []engine.Trait {
	from := engine.Trait{Key: v1.MachineDeploymentAnnotationKey, Reason: "MachineDeploymentDrift"}
	deferred := class.Spec.DriftPolicy == clusterapiv1alpha1.DriftDefer
	template := engine.Trait{Key: v1.MachineTemplateAnnotationKey, Reason: "MachineTemplateDrift", Observed: deferred}
	for key := range s.Deployments {
		from.Accepts = append(from.Accepts, key)
	}
	active := map[string]int{}
	for _, set := range sets {
		key := set.Namespace + "/" + set.Labels[contract.DeploymentNameLabel]
		d := s.Deployments[key]
		if hash := set.Labels[contract.TemplateHashLabel]; d != nil && (d.IsNewest(set) || !d.OnDelete() && !deferred) {
			template.Accepts = append(template.Accepts, hash)
		}
		if d != nil && !d.OnDelete() && set.Spec.Replicas != nil && *set.Spec.Replicas > 0 {
			if active[key]++; active[key] == 2 { // it rolls out
				from.Replacing = append(from.Replacing, key)
			}
		}
	}
	slices.Sort(from.Replacing)
	traits := []engine.Trait{from}
	if len(template.Accepts) > 0 && class.Spec.DriftPolicy != clusterapiv1alpha1.DriftIgnore {
		traits = append(traits, template)
	}
	for i := range traits {
		slices.Sort(traits[i].Accepts)
		traits[i].Accepts = slices.Compact(traits[i].Accepts)
	}
	return traits
}

// Observe adds facts from the Machines of the MachineDeployment. nodeOf returns the Node of a Machine that has one; nil if the Node does not
// exist. Observe prefers a node of the newest template.
func (s *Source) Observe(machines []*contract.Machine, nodeOf func(*contract.Machine) (*corev1.Node, error)) error {
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b *contract.Machine) int { return strings.Compare(a.Name, b.Name) })
	outdated := map[string]bool{}
	for _, set := range s.Sets {
		if !s.Deployment.IsNewest(set) {
			outdated[set.Labels[contract.TemplateHashLabel]] = true
		}
	}
	for _, machine := range machines {
		if domain := machine.Status.FailureDomain; domain != "" && !slices.Contains(s.FailureDomains, domain) {
			s.FailureDomains = append(s.FailureDomains, domain)
		}
		old := outdated[machine.Labels[contract.TemplateHashLabel]]
		if machine.Status.NodeRef.Name == "" || s.Node != nil && (!s.Outdated || old) {
			continue
		}
		node, err := nodeOf(machine)
		if err != nil {
			return err
		}
		if node != nil && node.Spec.ProviderID == machine.Spec.ProviderID && len(node.Status.Capacity) > 0 {
			s.Node, s.Outdated = node, old
		}
	}
	return nil
}

// DeploymentOf returns the key of a Machine's MachineDeployment, "" if it has none.
func DeploymentOf(m *contract.Machine) string {
	if name := m.Labels[contract.DeploymentNameLabel]; name != "" {
		return m.Namespace + "/" + name
	}
	return ""
}
