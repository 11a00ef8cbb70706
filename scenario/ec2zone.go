package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/catalog"
)

// homeRegion is the region of the built-in figures and prices.
const homeRegion = "us-east-1"

// EC2Zones returns the zones in which EC2's machines are offered: all zones that the objects name, and the usual zones of their regions and
// of the user's region, if any. If nothing is named, they are the zones of us-east-1. The note names the origin of the figures and prices for other
// regions; it is empty if there are none.
func EC2Zones(s *engine.Snapshot, region string) (zones []catalog.Zone, note string) {
	a := newAtlas()
	a.addRegion(region)
	a.read(s)
	zones = a.list()
	return zones, figuresNote(zones)
}

// figuresNote returns the note about zones of other regions. It returns "" if there are none.
func figuresNote(zones []catalog.Zone) string {
	var abroad []string
	for _, z := range zones {
		if r := catalog.RegionOf(z.Name); r != "" && r != homeRegion {
			abroad = append(abroad, r)
		}
	}
	if len(abroad) == 0 {
		return ""
	}
	slices.Sort(abroad)
	return fmt.Sprintf("instance types, figures and prices in %s are those of %s, which may differ, and spot prices an estimate: "+
		"bring your own with --instance-types", strings.Join(slices.Compact(abroad), ", "), homeRegion)
}

// atlas collects the zones of EC2 that objects name, and the regions of Azure. It ignores names in other forms.
type atlas struct {
	regions, zones, ids map[string]bool
	idOf                map[string]string // of zones whose ID is known
	azure               map[string]bool   // names of regions
	regional            bool              // an object names machines of Azure that are in no zone
}

func newAtlas() *atlas {
	return &atlas{regions: map[string]bool{}, zones: map[string]bool{}, ids: map[string]bool{}, idOf: map[string]string{}, azure: map[string]bool{}}
}

func (a *atlas) addRegion(region string) {
	if catalog.IsRegion(region) {
		a.regions[region] = true
	}
	if catalog.IsAzureRegion(region) {
		a.azure[region] = true
	}
}

func (a *atlas) addZone(zone string) {
	if region := catalog.RegionOf(zone); region != "" {
		a.regions[region], a.zones[zone] = true, true
	}
	a.addRegion(catalog.AzureRegionOf(zone))
	a.regional = a.regional || zone == assortment.RegionalZone
}

// add reads a requirement on zones. An unwanted zone is not added, but its region is.
func (a *atlas) add(key string, unwanted bool, values ...string) {
	for _, value := range values {
		switch v1.NormalizeLabel(key) {
		case corev1.LabelTopologyZone:
			if unwanted {
				a.addRegion(catalog.RegionOf(value))
				a.addRegion(catalog.AzureRegionOf(value))
				continue
			}
			a.addZone(value)
		case corev1.LabelTopologyRegion:
			if !unwanted {
				a.addRegion(value)
			}
		case size.LabelPlacementScope:
			a.regional = a.regional || !unwanted && value == "regional"
		case awsv1.ZoneIDLabelKey:
			if region := catalog.RegionOfID(value); region != "" {
				a.regions[region] = true
				a.ids[value] = a.ids[value] || !unwanted
			}
		}
	}
}

func (a *atlas) addLabels(labels map[string]string) {
	for key, text := range labels {
		a.add(key, false, strings.Split(text, "__")...) // a volume's label may name several zones or regions
	}
	if zone, id := labels[corev1.LabelTopologyZone], labels[awsv1.ZoneIDLabelKey]; catalog.RegionOf(zone) != "" && id != "" {
		a.idOf[zone] = id
	}
}

func (a *atlas) addTerms(terms []corev1.NodeSelectorTerm) {
	for _, t := range terms {
		for _, r := range t.MatchExpressions {
			a.add(r.Key, r.Operator == corev1.NodeSelectorOpNotIn, r.Values...)
		}
	}
}

func (a *atlas) addPodSpec(spec *corev1.PodSpec) {
	a.addLabels(spec.NodeSelector)
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return
	}
	affinity := spec.Affinity.NodeAffinity
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		a.addTerms(required.NodeSelectorTerms)
	}
	for _, p := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		a.addTerms([]corev1.NodeSelectorTerm{p.Preference})
	}
}

func (a *atlas) addRequirements(list []v1.Requirement) {
	said := map[string][]string{}
	for _, r := range list {
		a.add(r.Key, r.Operator == v1.NotIn, r.Values...)
		if r.Operator == v1.In {
			said[v1.NormalizeLabel(r.Key)] = r.Values
		}
	}
	// If a pool names as many zones as IDs, they are the same places in the same order.
	zones, ids := said[corev1.LabelTopologyZone], said[awsv1.ZoneIDLabelKey]
	for i := range zones {
		if len(zones) == len(ids) && catalog.RegionOf(zones[i]) != "" && a.idOf[zones[i]] == "" {
			a.idOf[zones[i]] = ids[i]
		}
	}
}

// read reads all objects that can name a zone. It reads nodes first, because their labels show which zone has which ID.
func (a *atlas) read(s *engine.Snapshot) {
	for _, n := range s.Nodes {
		a.addLabels(n.Labels)
		if rest, found := strings.CutPrefix(n.Spec.ProviderID, "aws:///"); found {
			zone, _, _ := strings.Cut(rest, "/")
			a.addZone(zone)
		}
	}
	for _, c := range s.NodeClaims {
		a.addLabels(c.Labels)
		a.addRequirements(c.Spec.Requirements)
	}
	for _, p := range s.NodePools {
		a.addLabels(p.Spec.Template.Labels)
		a.addRequirements(p.Spec.Template.Spec.Requirements)
	}
	for _, p := range s.Pods {
		a.addPodSpec(&p.Spec)
	}
	for _, d := range s.DaemonSets {
		a.addPodSpec(&d.Spec.Template.Spec)
	}
	for _, v := range s.PersistentVolumes {
		a.addLabels(v.Labels)
		if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
			a.addTerms(v.Spec.NodeAffinity.Required.NodeSelectorTerms)
		}
	}
	for _, c := range s.StorageClasses {
		for _, t := range c.AllowedTopologies {
			for _, e := range t.MatchLabelExpressions {
				a.add(e.Key, false, e.Values...)
			}
		}
	}
}

// list returns all zones, sorted by name. They have IDs only if an object names an ID. The IDs differ in each AWS account, so IDs that no
// object shows are a guess.
func (a *atlas) list() (out []catalog.Zone) {
	if len(a.regions) == 0 {
		a.regions[homeRegion] = true
	}
	for region := range a.regions {
		for _, z := range catalog.UsualZones(region) {
			a.zones[z.Name] = true
		}
	}
	if len(a.ids) > 0 {
		a.spreadIDs()
	}
	for _, zone := range slices.Sorted(maps.Keys(a.zones)) {
		out = append(out, catalog.Zone{Name: zone, ID: a.idOf[zone]})
	}
	return out
}

// spreadIDs sets an ID for each zone, and a zone for each ID that is named.
func (a *atlas) spreadIDs() {
	taken := map[string]bool{}
	for _, id := range a.idOf {
		taken[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(a.ids)) {
		if zone := cmp.Or(a.freeZone(id), catalog.ZoneOfID(id)); a.ids[id] && !taken[id] && zone != "" && a.idOf[zone] == "" {
			a.zones[zone], a.idOf[zone], taken[id] = true, id, true
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(a.zones)) {
		if id := catalog.IDOf(zone); a.idOf[zone] == "" && id != "" && !taken[id] {
			a.idOf[zone], taken[id] = id, true
		}
	}
}

// freeZone returns the usual zone of an ID if this zone has no other ID yet. If it has one, freeZone returns one of the region's usual zones
// without an ID; "" if there is none.
func (a *atlas) freeZone(id string) string {
	if zone := catalog.ZoneOfID(id); zone != "" && a.idOf[zone] == "" {
		return zone
	}
	for _, z := range catalog.UsualZones(catalog.RegionOfID(id)) {
		if a.idOf[z.Name] == "" {
			return z.Name
		}
	}
	return ""
}
