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

// PriceBook finds the prices of machines by their labels.
type PriceBook struct {
	byClass  kube.TypeIndex
	anyType  map[string]*engine.InstanceType
	overhead float64 // the overhead price of every node
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

// Price returns the billed price of a node on a machine with these labels, in USD per hour, from the catalog of its class. If class is nil,
// any catalog counts. The price is not known if no catalog has the offering, or none has it with a price.
func (b *PriceBook) Price(labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	o, _ := b.priced(MachineOffering(labels), labels, class)
	if o == nil {
		return 0, false
	}
	usd = o.Price + b.overhead
	return usd, usd > 0
}

// DecisionPrice returns the node's price in decisions: its price, plus the expected cost of interruptions.
func (b *PriceBook) DecisionPrice(labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	return b.priceOf(MachineOffering(labels), labels, class)
}

// priceOf is DecisionPrice for a machine whose labels name this offering.
func (b *PriceBook) priceOf(id engine.OfferingID, labels map[string]string, class *v1.NodeClassReference) (usd float64, known bool) {
	o, usd := b.priced(id, labels, class)
	return usd, o != nil
}

// priced returns the offering of a machine with its price in decisions. It returns nil if the price is not known.
func (b *PriceBook) priced(id engine.OfferingID, labels map[string]string, class *v1.NodeClassReference) (best *engine.Offering, usd float64) {
	best = b.offering(id, labels, class)
	if best == nil || best.PriceUnknown || !(best.Price > 0) && (best.Unpriced || best.SoldOut) { // if sold out, it may have lost the mark Unpriced
		return nil, 0
	}
	usd = best.NodePrice(b.overhead)
	if !(usd > 0) || math.IsInf(usd, 1) {
		return nil, 0
	}
	return best, usd
}

// ListPrice returns the price in the cloud's list of a machine whose price is known, without NodeOverlays. It returns 0 if the list has none.
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

// Reservation returns the reservation that a machine with these labels draws from. It returns "" if it draws from none.
func (b *PriceBook) Reservation(labels map[string]string, class *v1.NodeClassReference) string {
	if o := b.offering(MachineOffering(labels), labels, class); o != nil && carries(labels, o.Labels) {
		return o.Reservation
	}
	return ""
}

// ReservationOf returns the reservation that the machine draws from. It returns "" if it draws from none that is still offered.
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
		// Reservations share zone and capacity type; their labels distinguish them.
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

// MachineOffering reads the offering from a machine's labels: the labels that every cluster has, and the labels by which clouds without Karpenter
// mark spot machines. A node without the mark of spot machines is treated as on demand.
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

// RunsOnDemand reports whether a machine with these labels is on demand or reserved, and is not taken away like spot machines.
func RunsOnDemand(labels map[string]string) bool {
	return MachineOffering(labels).CapacityType != v1.CapacityTypeSpot && labels[kube.InterruptibleReservation] != "true"
}

// catalogs is the catalogs of all classes, with their indexes.
type catalogs struct {
	keys    []catalogKey
	Types   kube.TypeIndex
	Drivers []string // the drivers of volumes that some type limits
	prices  *PriceBook
}

// catalogKey identifies a class's catalog. A catalog that was read again has another key.
type catalogKey struct {
	class v1.NodeClassReference
	pools string // the pools that it is corrected for
	first *engine.InstanceType
	types int
}

// CatalogsOf returns the catalogs of the snapshot's classes. A nil cache keeps nothing.
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
		for _, f := range cache.nodes { // nodes outside the list of machines do not keep old catalogs
			if cache.machines == nil || f.machineList != cache.machines.number {
				f.machine, f.catalogs = nil, nil
			}
		}
	}
	return out
}

func (cache *Cache) TypesOf(s *engine.Snapshot) kube.TypeIndex { return cache.CatalogsOf(s).Types }
