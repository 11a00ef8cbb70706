package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// addClasses adds a class to the snapshot for each reference of a pool.
func (m *manifest) addClasses(s *engine.Snapshot) error {
	s.NodePools = m.servedPools(s.NodePools)
	var refs []v1.NodeClassReference
	for _, p := range s.NodePools {
		refs = append(refs, *p.Spec.Template.Spec.NodeClassRef)
	}
	slices.SortFunc(refs, compareRefs)
	m.capi.match(s)
	m.labelMachines()
	built := map[string][]engine.InstanceType{}
	for _, ref := range slices.Compact(refs) {
		s.Classes = append(s.Classes, m.classOf(s, ref, built))
	}
	m.noteUnselected()
	if len(s.NodePools) == 0 {
		m.note("there is no NodePool: nothing can be launched")
	}
	return nil
}

func compareRefs(a, b v1.NodeClassReference) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// servedPools drops pools whose kind of class the snapshot's controller does not serve, because another controller serves them.
func (m *manifest) servedPools(pools []*v1.NodePool) []*v1.NodePool {
	if m.catalog == nil || len(m.catalog.Classes) == 0 {
		return pools
	}
	return slices.DeleteFunc(pools, func(p *v1.NodePool) bool {
		ref := p.Spec.Template.Spec.NodeClassRef
		served := slices.ContainsFunc(m.catalog.Classes, func(c engine.Class) bool { return c.Ref.GroupKind() == ref.GroupKind() })
		if !served {
			m.note("NodePool %s left out: the controller of this snapshot does not serve kind %s", p.Name, ref.Kind)
		}
		return !served
	})
}

// classOf returns a class with its instance types. These come from the catalog given on the command line. If there is none, they come from the
// snapshot's catalog. If there is none either, they come from the built-in catalog of the kind.
func (m *manifest) classOf(s *engine.Snapshot, ref v1.NodeClassReference, built map[string][]engine.InstanceType) engine.Class {
	class := engine.Class{Ref: ref}
	known := m.catalogClass(ref)
	switch {
	case known != nil && known.Ref == ref:
		class = *known
	default:
		class.Problem = m.problemOf(ref)
		if known != nil {
			class.InstanceTypes = known.InstanceTypes
		}
	}
	switch {
	case m.override != nil:
		class.InstanceTypes = m.override
	case known != nil:
	default:
		m.builtIn(s, &class, built)
	}
	class.Assumed = class.Assumed || known == nil || known.Ref != ref
	return class
}

// catalogClass returns the snapshot's entry for the class, or for another class of the same kind.
func (m *manifest) catalogClass(ref v1.NodeClassReference) *engine.Class {
	if m.catalog == nil {
		return nil
	}
	var other *engine.Class
	for i := range m.catalog.Classes {
		c := &m.catalog.Classes[i]
		if c.Ref == ref {
			return c
		}
		if c.Ref.GroupKind() == ref.GroupKind() && (other == nil || compareRefs(c.Ref, other.Ref) < 0) {
			other = c
		}
	}
	return other
}

// builtIn sets the instance types from the built-in catalog of the class's kind.
func (m *manifest) builtIn(s *engine.Snapshot, class *engine.Class, built map[string][]engine.InstanceType) {
	switch {
	case class.Ref.Kind == "EC2NodeClass", isAutoMode(class.Ref), class.Ref.Kind == "KWOKNodeClass" && m.asksFor(ec2Labels, class.Ref):
		m.ec2Types(s, class, built)
	case class.Ref.Kind == aksKind, class.Ref.Kind == "KWOKNodeClass" && m.asksFor(azureLabels, class.Ref):
		m.azureTypes(s, class, built)
	case class.Ref.Kind == "KWOKNodeClass":
		if built[catalog.NameKWOK] == nil {
			built[catalog.NameKWOK] = catalog.KWOK()
		}
		class.InstanceTypes = built[catalog.NameKWOK]
		m.note("instance types of %s %s: the built-in catalog %q", class.Ref.Kind, class.Ref.Name, catalog.NameKWOK)
	case class.Ref.Kind == "ClusterAPINodeClass" && len(m.capi.deployments) > 0:
		m.clusterAPITypes(class)
	case class.Ref.Kind == "ClusterAPINodeClass":
		class.Problem = cmp.Or(class.Problem, "there are no MachineDeployments to read what they make: with -f, add what kubectl get machinedeployments -A -o yaml prints, or name a file with --instance-types")
	default:
		class.Problem = cmp.Or(class.Problem, fmt.Sprintf("no instance types are known for kind %s: name a file with --instance-types", class.Ref.Kind))
	}
}

// asksFor reports whether a pool of the class requires labels that only one cloud's types have. The simulated cloud must then sell these
// types.
func (m *manifest) asksFor(labels string, ref v1.NodeClassReference) bool {
	return slices.ContainsFunc(m.snapshot.NodePools, func(p *v1.NodePool) bool {
		return *p.Spec.Template.Spec.NodeClassRef == ref && slices.ContainsFunc(p.Spec.Template.Spec.Requirements,
			func(r v1.Requirement) bool {
				return strings.HasPrefix(r.Key, labels) && r.Operator != v1.NotIn && r.Operator != v1.DoesNotExist
			})
	})
}

const (
	ec2Labels   = "karpenter.k8s.aws/"
	azureLabels = "karpenter.azure.com/"
)

// problemOf returns the message of the class's Ready condition if it is not true. A class without status, or without an object, counts as
// ready.
func (m *manifest) problemOf(ref v1.NodeClassReference) string {
	class := m.classNamed(ref)
	if class == nil {
		m.note("%s %s is not in the files: taken to be ready", ref.Kind, ref.Name)
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(class.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] == v1.ConditionReady && fields["status"] != string(metav1.ConditionTrue) {
			message, _ := fields["message"].(string)
			return fmt.Sprintf("%s %s is not ready: %s", ref.Kind, ref.Name, message)
		}
	}
	return ""
}
