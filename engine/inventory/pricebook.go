package inventory

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// PriceBook finds what machines cost by what their labels say of them.
type PriceBook struct {
	byClass  kube.TypeIndex
	anyType  map[string]*engine.InstanceType
	overhead float64 // of every node
}

// NewPriceBook reads the catalogs of the snapshot's classes.
func NewPriceBook(s *engine.Snapshot) *PriceBook { return newPriceBook(s, kube.NewTypeIndex(s)) }

func newPriceBook(s *engine.Snapshot, types kube.TypeIndex) *PriceBook {
	b := &PriceBook{types, map[string]*engine.InstanceType{}, s.NodeOverheadPrice}
	for i := range s.Classes {
		if len(s.Classes[i].Pools) > 0 {
			continue
		}
		for j := range s.Classes[i].InstanceTypes {
			if t := &s.Classes[i].InstanceTypes[j]; b.anyType[t.Name] == nil {
				b.anyType[t.Name] = t
			}
		}
	}
	return b
}

// Price is what is billed for a node on a machine with these labels an hour, in USD, after the catalog of its class; class may be nil, and
// then any catalog's figure is taken. It is not known if no catalog has such an offering, or none with a price.
func (b *PriceBook) Price(labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	o, _ := b.priced(MachineOffering(labels), labels, class)
	if o == nil {
		return 0, false
	}
	usd = o.Price + b.overhead
	return usd, usd > 0
}

// DecisionPrice is what the node counts for in decisions: its price, and what interruptions of it are expected to cost.
func (b *PriceBook) DecisionPrice(labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	return b.priceOf(MachineOffering(labels), labels, class)
}

// priceOf is DecisionPrice of a machine with labels that name that offering.
func (b *PriceBook) priceOf(id engine.OfferingID, labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	o, usd := b.priced(id, labels, class)
	return usd, o != nil
}

// priced is the offering of a machine with its price in decisions; nil if that is not known.
func (b *PriceBook) priced(id engine.OfferingID, labels map[string]string, class *v1.NodeClassReference) (best *engine.Offering, usd float64) {
	best = b.offering(id, labels, class)
	if best == nil || best.PriceUnknown || !(best.Price > 0) && (best.Unpriced || best.SoldOut) { // what is marked sold out is not marked unpriced any more
		return nil, 0
	}
	usd = best.NodePrice(b.overhead)
	if !(usd > 0) || math.IsInf(usd, 1) {
		return nil, 0
	}
	return best, usd
}

// ListPrice is what the cloud's list says of a machine whose price is known, whatever NodeOverlays say; 0 if the list says nothing.
func (b *PriceBook) ListPrice(labels map[string]string, class *v1.NodeClassReference) float64 {
	o := b.offering(MachineOffering(labels), labels, class)
	switch {
	case o == nil:
		return 0
	case o.Overlay != "":
		return o.ListPrice
	}
	return o.KnownPrice()
}

// Reservation is the one that a machine with these labels draws from, "" if it draws from none.
func (b *PriceBook) Reservation(labels map[string]string, class *v1.NodeClassReference) string {
	if o := b.offering(MachineOffering(labels), labels, class); o != nil && carries(labels, o.Labels) {
		return o.Reservation
	}
	return ""
}

// ReservationOf is the one that the machine draws from, "" if it draws from none that is still offered.
func (cache *Cache) ReservationOf(s *engine.Snapshot, h *MachineInfo) string {
	return cache.CatalogsOf(s).prices.Reservation(h.Labels, h.Claim.Spec.NodeClassRef)
}

func (b *PriceBook) offering(id engine.OfferingID, labels map[string]string, class *v1.NodeClassReference) *engine.Offering {
	t := b.anyType[id.InstanceType]
	if types := b.byClass.Of(class, labels[v1.NodePoolLabelKey]); types != nil {
		t = types[id.InstanceType]
	}
	if t == nil {
		return nil
	}
	var best *engine.Offering
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone != id.Zone || o.CapacityType != id.CapacityType {
			continue
		}
		// Reservations share zone and capacity type; what their labels say tells them apart.
		if best == nil || carries(labels, o.Labels) && (!carries(labels, best.Labels) || len(o.Labels) > len(best.Labels)) {
			best = o
		}
	}
	return best
}

func carries(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// MachineOffering reads a machine's labels: those that every cluster has, and those by which clouds without Karpenter say
// that a node is a spot machine. A node that does not say so counts as one on demand.
func MachineOffering(labels map[string]string) engine.OfferingID {
	first := func(keys ...string) string {
		for _, key := range keys {
			if labels[key] != "" {
				return labels[key]
			}
		}
		return ""
	}
	id := engine.OfferingID{
		InstanceType: first(corev1.LabelInstanceTypeStable, corev1.LabelInstanceType),
		Zone:         first(corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone),
		CapacityType: labels[v1.CapacityTypeLabelKey],
	}
	if id.CapacityType != "" {
		return id
	}
	id.CapacityType = v1.CapacityTypeOnDemand
	for key, value := range kube.SpotLabels {
		if labels[key] == value {
			id.CapacityType = v1.CapacityTypeSpot
		}
	}
	return id
}

// RunsOnDemand reports whether a machine with these labels is on demand, or reserved, and not one that is taken away like spot machines.
func RunsOnDemand(labels map[string]string) bool {
	return MachineOffering(labels).CapacityType != v1.CapacityTypeSpot && labels[kube.InterruptibleReservation] != "true"
}

// catalogs is what classes sell, with what finds it.
type catalogs struct {
	keys    []catalogKey
	Types   kube.TypeIndex
	Drivers []string // of which some type takes only so many volumes
	prices  *PriceBook
}

// catalogKey tells a class's catalog from others. One that was read anew is another one.
type catalogKey struct {
	class v1.NodeClassReference
	pools string // those that it is corrected for
	first *engine.InstanceType
	types int
}

// CatalogsOf is what the snapshot's classes sell. A nil cache remembers nothing.
func (cache *Cache) CatalogsOf(s *engine.Snapshot) *catalogs {
	var keys []catalogKey
	for i := range s.Classes {
		by := catalogKey{class: s.Classes[i].Ref, pools: strings.Join(s.Classes[i].Pools, " "), types: len(s.Classes[i].InstanceTypes)}
		if by.types > 0 {
			by.first = &s.Classes[i].InstanceTypes[0]
		}
		keys = append(keys, by)
	}
	if cache != nil && cache.catalogs != nil && slices.Equal(cache.catalogs.keys, keys) && cache.catalogs.prices.overhead == s.NodeOverheadPrice {
		return cache.catalogs
	}
	types := kube.NewTypeIndex(s)
	out := &catalogs{keys: keys, Types: types, Drivers: kube.LimitedDrivers(s), prices: newPriceBook(s, types)}
	if cache != nil {
		cache.catalogs = out
		for _, f := range cache.nodes { // what was sold before is not kept for nodes that nobody asks for any more
			if cache.machines == nil || f.machineList != cache.machines.number {
				f.machine, f.catalogs = nil, nil
			}
		}
	}
	return out
}

func (cache *Cache) TypesOf(s *engine.Snapshot) kube.TypeIndex { return cache.CatalogsOf(s).Types }
