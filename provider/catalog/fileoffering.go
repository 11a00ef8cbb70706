package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// fileOffering is one offering of a type. Zone and CapacityType are the short form, Requirements the long one.
type fileOffering struct {
	Price               *float64          `json:"Price"`
	Available           *bool             `json:"Available,omitempty"`
	ReservationCapacity *int64            `json:"ReservationCapacity,omitempty"`
	Requirements        []fileRequirement `json:"Requirements,omitempty"`
	Zone                string            `json:"zone,omitempty"`
	CapacityType        string            `json:"capacityType,omitempty"`
	// Reservation is short for a requirement on ReservationLabel.
	Reservation string `json:"reservation,omitempty"`
}

type fileRequirement struct {
	Key      string      `json:"key"`
	Operator v1.Operator `json:"operator"`
	Values   []string    `json:"values,omitempty"`
}

func offerings(typeName string, list []json.RawMessage) ([]engine.Offering, error) {
	if len(list) == 0 {
		return nil, errors.New("offerings: missing: a type without one can never be started")
	}
	out := []engine.Offering{}
	for i, raw := range list {
		field := fmt.Sprintf("offerings[%d]", i)
		var f fileOffering
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", field, jsonProblem(err, nil))
		}
		o, err := f.offering(typeName)
		if err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
		for j, other := range out {
			if o.Zone == other.Zone && o.CapacityType == other.CapacityType && maps.Equal(o.Labels, other.Labels) {
				return nil, fmt.Errorf("%s: the same as offerings[%d]: %s in %s", field, j, o.CapacityType, o.Zone)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

func (f fileOffering) offering(typeName string) (engine.Offering, error) {
	o := engine.Offering{Zone: f.Zone, CapacityType: f.CapacityType}
	if f.Price == nil {
		return o, errors.New("price: missing: it is in USD per hour")
	}
	if o.Price = *f.Price; o.Price < 0 {
		return o, fmt.Errorf("price: %v is negative", o.Price)
	}
	for _, r := range f.Requirements {
		if err := r.apply(&o); err != nil {
			return o, err
		}
	}
	if o.Zone == "" {
		return o, fmt.Errorf("requirements: there is none for %s", corev1.LabelTopologyZone)
	}
	if err := labelValue("zone", o.Zone); err != nil {
		return o, err
	}
	types := []string{v1.CapacityTypeOnDemand, v1.CapacityTypeReserved, v1.CapacityTypeSpot}
	if o.CapacityType == "" {
		return o, fmt.Errorf("requirements: there is none for %s", v1.CapacityTypeLabelKey)
	}
	if !slices.Contains(types, o.CapacityType) {
		return o, fmt.Errorf("requirements: %s %q is none of %v", v1.CapacityTypeLabelKey, o.CapacityType, types)
	}
	if f.ReservationCapacity != nil && *f.ReservationCapacity < 0 {
		return o, fmt.Errorf("reservationCapacity: %d is negative", *f.ReservationCapacity)
	}
	if err := f.reserve(&o, typeName); err != nil {
		return o, err
	}
	usedUp := o.Reservation != "" && o.Slots == 0
	o.SoldOut = usedUp || f.Available != nil && !*f.Available
	return o, nil
}

// reserve sets the offering's reservation, if it has one. The ReservationCapacity of an offering that is not reserved is ignored, because
// files write 0 there.
func (f fileOffering) reserve(o *engine.Offering, typeName string) error {
	named := cmp.Or(f.Reservation, o.Labels[ReservationLabel])
	if o.CapacityType != v1.CapacityTypeReserved {
		if f.Reservation != "" {
			return fmt.Errorf("reservation: only offerings of capacity type %s have one", v1.CapacityTypeReserved)
		}
		return nil
	}
	if f.ReservationCapacity == nil {
		if named != "" {
			return fmt.Errorf("reservationCapacity: missing: it is how many machines reservation %s has left", named)
		}
		return nil
	}
	if *f.ReservationCapacity > math.MaxInt32 {
		return fmt.Errorf("reservationCapacity: %d is too large", *f.ReservationCapacity)
	}
	o.Reservation, o.Slots = cmp.Or(named, typeName+"-"+o.Zone), int(*f.ReservationCapacity)
	if err := labelValue("reservation", o.Reservation); err != nil {
		return err
	}
	if label := o.Labels[ReservationLabel]; label != "" && label != o.Reservation {
		return fmt.Errorf("reservation: it is %s here and %s in the requirements", o.Reservation, label)
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[ReservationLabel] = o.Reservation
	return nil
}

// apply sets one property of the offering from a requirement.
func (r fileRequirement) apply(o *engine.Offering) error {
	if problems := validation.IsQualifiedName(r.Key); len(problems) > 0 {
		return fmt.Errorf("requirements: %q is not a label key: %s", r.Key, problems[0])
	}
	field := "requirements." + r.Key
	if r.Operator == v1.DoesNotExist {
		return nil // machines do not have a label that their offering does not name
	}
	if r.Operator != v1.In || len(r.Values) != 1 {
		return fmt.Errorf("%s: it must be In with exactly one value, list an offering for each", field)
	}
	value := r.Values[0]
	if err := labelValue(field, value); err != nil {
		return err
	}
	target := map[string]*string{corev1.LabelTopologyZone: &o.Zone, v1.CapacityTypeLabelKey: &o.CapacityType}[r.Key]
	switch {
	case target == nil && o.Labels[r.Key] == "":
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[r.Key] = value
	case target != nil && cmp.Or(*target, value) == value:
		*target = value
	default:
		return fmt.Errorf("%s: it is given twice", field)
	}
	return nil
}

// settledElsewhere reports whether another field of a type or of its offerings sets this label.
func settledElsewhere(key string) bool {
	return slices.Contains([]string{corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelInstanceTypeStable,
		corev1.LabelTopologyZone, v1.CapacityTypeLabelKey}, key)
}
