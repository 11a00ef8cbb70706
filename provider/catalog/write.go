package catalog

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Write writes instance types in the format of Read; Read then returns the same types.
func Write(w io.Writer, types []engine.InstanceType) error {
	out := []fileType{}
	for _, t := range types {
		f, err := newFileType(t)
		if err != nil {
			return fmt.Errorf("write instance type %s: %w", t.Name, err)
		}
		out = append(out, f)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(out); err != nil {
		return fmt.Errorf("write instance types: %w", err)
	}
	return nil
}

func newFileType(t engine.InstanceType) (fileType, error) {
	arch := t.Labels[corev1.LabelArchStable]
	if len(arch) != 1 {
		return fileType{}, fmt.Errorf("it has %d architectures, the format can hold one", len(arch))
	}
	f := fileType{Name: t.Name, Architecture: arch[0], OperatingSystems: t.Labels[corev1.LabelOSStable],
		Resources: rawQuantities(t.Capacity), AttachLimits: t.AttachLimits}
	if !equalQuantities(t.Overhead, kwokOverhead()) {
		f.Overhead = rawQuantities(t.Overhead)
	}
	if !reflect.DeepEqual(t.Labels, kwokLabels(t.Name, f.Architecture, f.OperatingSystems, t.Capacity)) {
		f.Labels = map[string][]string{}
		for key, values := range t.Labels {
			if !settledElsewhere(key) {
				f.Labels[key] = values
			}
		}
	}
	for i := range t.Claimable {
		d, err := newFileDevices(&t.Claimable[i])
		if err != nil {
			return f, err
		}
		f.Claimable = append(f.Claimable, d)
	}
	for _, o := range t.Offerings {
		raw, err := json.Marshal(newFileOffering(o))
		if err != nil {
			return f, err
		}
		f.Offerings = append(f.Offerings, raw)
	}
	return f, nil
}

func newFileOffering(o engine.Offering) fileOffering {
	available := !o.SoldOut
	f := fileOffering{Price: &o.Price, Available: &available, Requirements: []fileRequirement{
		{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{o.CapacityType}},
		{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{o.Zone}},
	}}
	if o.Reservation != "" {
		slots := int64(o.Slots)
		f.ReservationCapacity = &slots
	}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		f.Requirements = append(f.Requirements, fileRequirement{Key: key, Operator: v1.In, Values: []string{o.Labels[key]}})
	}
	return f
}

func rawQuantities(list corev1.ResourceList) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, q := range list {
		out[string(name)] = json.RawMessage(`"` + q.String() + `"`)
	}
	return out
}

func equalQuantities(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
