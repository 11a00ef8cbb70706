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

// aksKind is the kind of node class of Azure.
const aksKind = "AKSNodeClass"

// aksSettings are those of a class in a region, u being nil for one that is not in the files.
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

// azureTypes gives the class what Azure sells to it, with the figures that are built in. Classes that ask for the same share it.
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

// noteLeft says of sizes that pools and pods ask for by name, and that are not to be had, why they are not.
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

// noteUntold says of labels that pools ask for that the built-in figures do not tell them.
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

// azureNames are the labels whose values are VM sizes, azureType their form.
var (
	azureNames = []string{corev1.LabelInstanceTypeStable, size.LabelName}
	azureType  = regexp.MustCompile(`^(Standard|Basic)_[\w-]+$`)
)

// AzurePlace is where machines of Azure are: in a region, and also in none of its zones if something asks for that.
type AzurePlace struct {
	Region   string
	Regional bool
}

// AzurePlaceOf is where the machines of objects are: in the region that the user names, or else the one that the objects name, or
// else East US, whose figures are built in. The note says whose figures and prices another one has, "" if it needs none.
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
