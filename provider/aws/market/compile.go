package market

import (
	"slices"
	"strings"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/price"
	"tenon.sh/provider/aws/size"
)

// compile makes the catalog of a class from parts that classes share: labels by operating system, node sizes by settings, offerings by zones.
func (m *Market) compile(s *stock, book price.Book, want Want) ([]engine.InstanceType, error) {
	system := keyOf(s.edit, awsv1.IsWindows(want.Settings.Family), images.WindowsBuild(want.Settings.Family))
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
	offerings := kept(m.shelf, "offerings"+zones, keptFor, func() [][]engine.Offering {
		return assortment.Offerings(s.types, s.zones, book, zonesOf(places))
	})

	reserved := ""
	if len(want.Reservations) > 0 {
		reserved = keyOf(m.slots.Edit(), withoutTimes(want.Reservations))
	}
	kinds := imageKinds(want.Images)
	whole := "catalog" + system + groupKey(want.Group) + settings + zones + keyOf(want.Demands, kinds) + reserved
	return kept(m.shelf, whole, keptFor, func() []engine.InstanceType {
		return assortment.Select(s.types, &want.Demands, kinds, labels, made.list, func(i int) []engine.Offering {
			if more := m.reservedOfferings(&s.types[i], book, want.Reservations, places); len(more) > 0 {
				return slices.Concat(offerings[i], more)
			}
			return offerings[i]
		})
	}), nil
}

// imageKinds returns the different requirements of a class's images, in order of preference.
func imageKinds(amis []awsv1.AMI) (out []images.Requirements) {
	for _, image := range amis {
		if !slices.ContainsFunc(out, func(k images.Requirements) bool { return keyOf(k) == keyOf(image.Requirements) }) {
			out = append(out, image.Requirements)
		}
	}
	return out
}

func groupKey(g *find.PlacementGroup) string {
	if g == nil {
		return ""
	}
	return keyOf(g)
}
