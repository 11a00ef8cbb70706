package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/catalog"
)

// aksKind is Azure's kind of node class.
const aksKind = "AKSNodeClass"

// aksSettings returns the settings of a class in a region. u is nil if the class is not in the files.
func aksSettings(u *unstructured.Unstructured, region string) (size.Settings, error) {
	s := size.Defaults(region)
	class := &azurev1beta1.AKSNodeClass{}
	if u != nil && u.GetKind() == aksKind {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, class); err != nil {
			return s, err
		}
	}
	return size.SettingsOf(class, s), nil
}

// azureTypes sets the class's instance types from the built-in figures of Azure. Classes with equal settings share the types.
func (m *manifest) azureTypes(s *engine.Snapshot, class *engine.Class, built map[string][]engine.InstanceType) {
	place, note := AzurePlaceOf(s, m.region)
	settings, err := aksSettings(m.classNamed(class.Ref), place.Region)
	if err != nil {
		class.Problem = fmt.Sprintf("%s %s is not ready: %v", class.Ref.Kind, class.Ref.Name, err)
		return
	}
	settings.Regional = place.Regional
	types, left := catalog.AzureTypes(settings)
	key := fmt.Sprintf("%s %+v", catalog.NameAzure, settings)
	if built[key] == nil {
		built[key] = types
	}
	class.InstanceTypes = built[key]
	m.note("instance types of %s %s: the built-in catalog %q", class.Ref.Kind, class.Ref.Name, catalog.NameAzure)
	if note != "" {
		m.elsewhere = m.elsewhere || place.Region != catalog.AzureRegion
		m.note("%s", note)
	}
	m.noteRegion("Azure", catalog.IsAzureRegion)
	m.noteLeft(s, class, left)
	m.noteUntold(s, class.Ref)
}

// noteLeft notes the reason for each size that pools or pods name and that the class does not offer.
func (m *manifest) noteLeft(s *engine.Snapshot, class *engine.Class, left []assortment.Left) {
	var missing []string
	for _, name := range namedTypes(s, class.Ref, azureNames, azureType) {
		if slices.ContainsFunc(class.InstanceTypes, func(t engine.InstanceType) bool { return t.Name == name }) {
			continue
		}
		why := "no figures of it are built in"
		if i := slices.IndexFunc(left, func(l assortment.Left) bool { return l.Size == name }); i >= 0 {
			why = left[i].Why
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", name, why))
	}
	if len(missing) > 0 {
		m.note("%s %s does not offer %s", class.Ref.Kind, class.Ref.Name, strings.Join(missing, ", "))
	}
}

// noteUntold notes labels in pools' requirements that the built-in figures do not have.
func (m *manifest) noteUntold(s *engine.Snapshot, ref v1.NodeClassReference) {
	for _, p := range s.NodePools {
		if *p.Spec.Template.Spec.NodeClassRef != ref {
			continue
		}
		for _, r := range p.Spec.Template.Spec.Requirements {
			if r.Key == size.LabelEphemeralOSDisk || r.Key == size.LabelUltraSSD {
				m.note("what sizes of Azure have of label %s is not known: all are taken to have what NodePool %s asks for", r.Key, p.Name)
			}
		}
	}
}

// azureNames are the labels whose values are VM sizes. azureType is the form of such a value.
var (
	azureNames = []string{corev1.LabelInstanceTypeStable, size.LabelName}
	azureType  = regexp.MustCompile(`^(Standard|Basic)_[\w-]+$`)
)

// AzurePlace is a region of Azure. Regional means that machines may be in none of its zones too.
type AzurePlace struct {
	Region   string
	Regional bool
}

// AzurePlaceOf returns the place of the machines. If the user names a region of Azure, this is the place. If not, the place is the first region, by
// name, that the objects name. If they name none, or name East US among others, the place is East US, whose figures are built in. For another
// region, the note explains that the figures and prices are those of East US. The note is "" for East US.
func AzurePlaceOf(s *engine.Snapshot, region string) (place AzurePlace, note string) {
	a := newAtlas()
	a.read(s)
	place = AzurePlace{region, a.regional}
	named := slices.Sorted(maps.Keys(a.azure))
	if !catalog.IsAzureRegion(region) {
		place.Region = catalog.AzureRegion
		if len(named) > 0 && !a.azure[catalog.AzureRegion] {
			place.Region = named[0]
		}
	}
	if place.Region != catalog.AzureRegion {
		note = fmt.Sprintf("sizes, zones and prices in %s are those of %s, which may differ: bring your own with --instance-types", place.Region, catalog.AzureRegion)
	}
	return place, note
}
