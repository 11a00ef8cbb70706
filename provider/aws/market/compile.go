package market

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/price"
	"tenon.sh/provider/aws/size"
)

// compile makes the catalog of a class out of parts that classes share: labels by system, what nodes have by settings,
// offerings by zones.
func (m *Market) compile(s *stock, book price.Book, want Want) ([]engine.InstanceType, error) {
	system := keyOf(s.edit, awsv1.IsWindows(want.Settings.Family), find.WindowsBuild(want.Settings.Family))
	labels := kept(m.shelf, "labels"+system+groupKey(want.Group), keptFor, func() []map[string][]string { return m.labels(s, want) })

	byName := func(kind string) *engine.InstanceType {
		i, found := slices.BinarySearchFunc(s.types, kind, func(f size.Figures, name string) int { return strings.Compare(f.Name, name) })
		if !found {
			return nil
		}
		return &engine.InstanceType{Name: kind, Labels: labels[i]}
	}
	learned := m.Memory.of(want.Images, byName)
	settings := keyOf(s.edit, want.Settings) + textOf(learned)
	made := kept(m.shelf, "sizes"+settings, keptFor, func() sizes { return m.sizes(s, &want.Settings, learned) })
	if made.err != nil {
		return nil, made.err
	}

	places := want.places()
	zones := keyOf(s.edit, book.Edit, places)
	offerings := kept(m.shelf, "offerings"+zones, keptFor, func() [][]engine.Offering { return offeringsOf(s, book, places) })

	reserved := ""
	if len(want.Reservations) > 0 {
		reserved = keyOf(m.slots.Edit(), withoutTimes(want.Reservations))
	}
	kinds := imageKinds(want.Images)
	whole := "catalog" + system + groupKey(want.Group) + settings + zones + keyOf(want.Demands, kinds) + reserved
	return kept(m.shelf, whole, keptFor, func() []engine.InstanceType {
		types := make([]engine.InstanceType, 0, len(s.types))
		for i := range s.types {
			f := &s.types[i]
			if !f.Meets(&want.Demands) || !runs(kinds, labels[i]) {
				continue
			}
			sold := offerings[i]
			if more := m.reservedOfferings(f, book, want.Reservations, places); len(more) > 0 {
				sold = slices.Concat(sold, more)
			}
			if len(sold) > 0 {
				have := made.list[i]
				types = append(types, engine.InstanceType{Name: f.Name, Labels: labels[i], Capacity: have.capacity, Overhead: have.overhead, Offerings: sold})
			}
		}
		return slices.Clip(types)
	}), nil
}

// imageKinds are the different requirements of a class's images, in order of preference.
func imageKinds(images []awsv1.AMI) (out [][]corev1.NodeSelectorRequirement) {
	for _, image := range images {
		if !slices.ContainsFunc(out, func(k []corev1.NodeSelectorRequirement) bool { return keyOf(k) == keyOf(image.Requirements) }) {
			out = append(out, image.Requirements)
		}
	}
	return out
}

// runs reports whether any image runs on machines with these labels. While no image has been found, all may.
func runs(kinds [][]corev1.NodeSelectorRequirement, labels map[string][]string) bool {
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(k []corev1.NodeSelectorRequirement) bool { return find.Fits(k, labels) })
}

func groupKey(g *find.PlacementGroup) string {
	if g == nil {
		return ""
	}
	return keyOf(g)
}
