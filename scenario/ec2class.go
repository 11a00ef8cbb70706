package scenario

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
)

// ec2Class returns the class for the AWS provider: the object in the files, or a class with a standard image and default settings.
func (m *manifest) ec2Class(ref v1.NodeClassReference) (*awsv1.EC2NodeClass, error) {
	u := m.classNamed(ref)
	if isAutoMode(ref) {
		return autoModeClass(u)
	}
	if u == nil || ref.Kind != "EC2NodeClass" {
		return catalog.DefaultClass(), nil
	}
	class := &awsv1.EC2NodeClass{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, class); err != nil {
		return nil, err
	}
	return class, nil
}

// classNamed returns the object of a reference. It returns nil if it is not in the files.
func (m *manifest) classNamed(ref v1.NodeClassReference) *unstructured.Unstructured {
	for _, u := range m.classes {
		if u.GroupVersionKind().GroupKind() == ref.GroupKind() && u.GetName() == ref.Name {
			return u
		}
	}
	return nil
}

// ec2Types sets the class's instance types from the built-in figures of EC2, as the AWS provider would. Classes with equal settings share the
// types.
func (m *manifest) ec2Types(s *engine.Snapshot, class *engine.Class, built map[string][]engine.InstanceType) {
	object, err := m.ec2Class(class.Ref)
	var types []engine.InstanceType
	if err == nil {
		types, err = m.ec2Catalog(s, class.Ref, object, built)
	}
	if err != nil {
		class.Problem = fmt.Sprintf("%s %s is not ready: %v", class.Ref.Kind, class.Ref.Name, err)
		return
	}
	class.InstanceTypes, class.Traits = types, ec2Traits(s, class.Ref, object, types)
	m.note("instance types of %s %s: the built-in catalog %q", class.Ref.Kind, class.Ref.Name, catalog.NameAWS)
	if awsv1.IsWindows(object.Family()) {
		m.note("prices of %s %s are those of machines with Linux: what Windows costs beside is not known", class.Ref.Kind, class.Ref.Name)
	}
	if isAutoMode(class.Ref) {
		m.note("prices of %s %s are EC2's: the fee of EKS Auto Mode comes on top", class.Ref.Kind, class.Ref.Name)
	}
	m.noteRegion("EC2", catalog.IsRegion)
	m.noteUnoffered(s, class)
	m.noteReservations(s, class.Ref, object)
	m.noteImages(class.Ref, object)
}

// noteReservations adds a note if a pool of the class asks for reserved capacity, because no reserved capacity is planned: the class's
// status, even if the files contain it, does not contain how many instances are left in each capacity reservation.
func (m *manifest) noteReservations(s *engine.Snapshot, ref v1.NodeClassReference, class *awsv1.EC2NodeClass) {
	named := slices.ContainsFunc(s.NodePools, func(p *v1.NodePool) bool {
		said, allowed := allowsReserved(p)
		return *p.Spec.Template.Spec.NodeClassRef == ref && allowed && (said || len(class.Spec.CapacityReservationSelectorTerms) > 0)
	})
	if !named {
		return
	}
	why := "no status with its capacity reservations is in the files"
	if n := len(class.Status.CapacityReservations); n > 0 {
		why = fmt.Sprintf("how many machines are left of the capacity reservations in its status, %d in all, is not in the files", n)
	}
	m.note("%s %s: %s, so no reserved capacity is planned: plan with a file of tenon snapshot, or with offerings of capacity type %s in --instance-types",
		ref.Kind, ref.Name, why, v1.CapacityTypeReserved)
}

// allowsReserved reports whether the pool's requirements name the capacity type reserved, and whether they allow it.
func allowsReserved(p *v1.NodePool) (said, allowed bool) {
	allowed = true
	for _, r := range p.Spec.Template.Spec.Requirements {
		if v1.NormalizeLabel(r.Key) != v1.CapacityTypeLabelKey {
			continue
		}
		has := slices.Contains(r.Values, v1.CapacityTypeReserved)
		switch r.Operator {
		case v1.In:
			said, allowed = said || has, allowed && has
		case v1.NotIn:
			allowed = allowed && !has
		}
	}
	return said, allowed
}

// noteImages adds a note if the class selects its images by other terms than an alias, because only its status names those images.
func (m *manifest) noteImages(ref v1.NodeClassReference, class *awsv1.EC2NodeClass) {
	if _, found, _ := class.Alias(); !found && len(class.Spec.AMISelectorTerms) > 0 && len(class.Status.AMIs) == 0 {
		m.note("%s %s: no status with its images is in the files: they are taken to run on every instance type", ref.Kind, ref.Name)
	}
}

// ec2Traits returns the traits of the class's machines by its own status and annotations.
func ec2Traits(s *engine.Snapshot, ref v1.NodeClassReference, class *awsv1.EC2NodeClass, types []engine.InstanceType) (out []engine.Trait) {
	started := map[string]bool{}
	var foreign []string // fingerprints of other versions, which cannot be compared
	for _, claim := range s.NodeClaims {
		if claim.Spec.NodeClassRef == nil || *claim.Spec.NodeClassRef != ref {
			continue
		}
		started[claim.Labels[corev1.LabelInstanceTypeStable]] = true
		if claim.Annotations[awsv1.HashVersionAnnotationKey] != class.Annotations[awsv1.HashVersionAnnotationKey] {
			foreign = append(foreign, claim.Annotations[awsv1.HashAnnotationKey])
		}
	}
	if hash := class.Annotations[awsv1.HashAnnotationKey]; hash != "" {
		out = append(out, engine.Trait{Key: awsv1.HashAnnotationKey, Accepts: append(foreign, hash)})
	}
	return append(out, catalog.EC2Traits(class, types, started)...)
}

func (m *manifest) ec2Catalog(s *engine.Snapshot, ref v1.NodeClassReference, class *awsv1.EC2NodeClass, built map[string][]engine.InstanceType) ([]engine.InstanceType, error) {
	zones, note := EC2Zones(s, m.region)
	if len(class.Status.Subnets) > 0 {
		zones = subnetZones(class.Status.Subnets)
		note = figuresNote(zones)
	}
	text, err := json.Marshal([]any{isAutoMode(ref), class.Spec, class.Status.AMIs, zones})
	if err != nil {
		return nil, err
	}
	if note != "" {
		m.elsewhere = true
		m.note("%s", note)
	}
	key := string(text)
	if built[key] != nil {
		return built[key], nil
	}
	types, err := catalog.EC2(class, zones)
	if err != nil {
		return nil, err
	}
	if isAutoMode(ref) {
		types = autoModeTypes(types)
	}
	built[key] = types
	return types, nil
}

// subnetZones returns the zones of the class's subnets that the provider has found.
func subnetZones(subnets []awsv1.Subnet) (out []catalog.Zone) {
	for _, s := range subnets {
		if !slices.ContainsFunc(out, func(z catalog.Zone) bool { return z.Name == s.Zone }) {
			out = append(out, catalog.Zone{Name: s.Zone, ID: s.ZoneID})
		}
	}
	slices.SortFunc(out, func(a, b catalog.Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// noteUnoffered notes the reason for each type or family that pools or pods name and that the class does not offer.
func (m *manifest) noteUnoffered(s *engine.Snapshot, class *engine.Class) {
	offered := map[string]bool{}
	for i := range class.InstanceTypes {
		name := class.InstanceTypes[i].Name
		family, _, _ := strings.Cut(name, ".")
		offered[name], offered[family] = true, true
	}
	var missing []string
	for _, name := range namedTypes(s, class.Ref, ec2Names, ec2Type) {
		if offered[name] {
			continue
		}
		why := catalog.Unoffered(name)
		if why == "" {
			why = "no image of the class runs on it"
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", name, why))
	}
	if len(missing) > 0 {
		m.note("%s %s does not offer %s", class.Ref.Kind, class.Ref.Name, strings.Join(missing, ", "))
	}
}

// namedTypes returns the sorted instance types and families in the labels of pools of the class, and of pods. For pods, only names in the
// form of the class's types count, because other names may belong to another class.
func namedTypes(s *engine.Snapshot, ref v1.NodeClassReference, keys []string, form *regexp.Regexp) (names []string) {
	isName := func(key string) bool { return slices.Contains(keys, v1.NormalizeLabel(key)) }
	for _, p := range s.NodePools {
		if *p.Spec.Template.Spec.NodeClassRef != ref {
			continue
		}
		for _, r := range p.Spec.Template.Spec.Requirements {
			if isName(r.Key) && r.Operator == v1.In {
				names = append(names, r.Values...)
			}
		}
	}
	for _, p := range s.Pods {
		for key, value := range p.Spec.NodeSelector {
			if isName(key) && form.MatchString(value) {
				names = append(names, value)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noteRegion adds a note if the region of the command line is not a region of this cloud.
func (m *manifest) noteRegion(cloud string, isRegion func(string) bool) {
	if m.region != "" && !isRegion(m.region) {
		m.note("%s is no region of %s", m.region, cloud)
	}
}

// ec2Names are the labels whose values are types or families of EC2. ec2Type is the form of a type.
var (
	ec2Names = []string{corev1.LabelInstanceTypeStable, awsv1.FamilyLabelKey, autoModeGroup + "/instance-family"}
	ec2Type  = regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`)
)
