package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/engine"
)

// fileType is one element of an instance-type file. Keys match without regard to case, because existing files write some of them with a
// capital letter.
type fileType struct {
	Name             string                     `json:"name"`
	Architecture     string                     `json:"architecture"`
	OperatingSystems []string                   `json:"operatingSystems"`
	Resources        map[string]json.RawMessage `json:"resources"`
	// Overhead and Labels exist only in Tenon's format: a type without them gets the fixed overhead of 100m and 10Mi, and the four
	// karpenter.kwok.sh labels.
	Overhead map[string]json.RawMessage `json:"overhead,omitempty"`
	Labels   map[string][]string        `json:"labels,omitempty"`
	// AttachLimits exists only in Tenon's format. It is the largest number of volumes on a machine, by CSI driver.
	AttachLimits map[string]int `json:"attachLimits,omitempty"`
	// Claimable exists only in Tenon's format. It lists the devices that drivers publish on a machine, for resource claims.
	Claimable []fileDevices     `json:"claimable,omitempty"`
	Offerings []json.RawMessage `json:"offerings"`
}

// Read reads instance types from a file in JSON; name is the file's name in errors. The result is ordered by name.
//
// An offering has its zone and capacity type in requirements or, shorter, in the keys zone and capacityType. A reserved offering with a
// ReservationCapacity draws from a reservation of that many machines. The reservation's name is in the key reservation or in a requirement on
// ReservationLabel; without either, the reservation belongs to this type and zone alone. An offering whose Available is false becomes
// SoldOut. Every error is one line that names the file, the type and the field.
func Read(r io.Reader, name string) ([]engine.InstanceType, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("instance-type file %s: %w", name, err)
	}
	types, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("instance-type file %s: %w", name, err)
	}
	return types, nil
}

func parse(content []byte) ([]engine.InstanceType, error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // some editors write a byte order mark
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, errors.New("the file is empty: it must hold a JSON array of instance types")
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(content, &elements); err != nil {
		return nil, jsonProblem(err, content)
	}
	if len(elements) == 0 {
		return nil, errors.New("there are no instance types in it")
	}
	types, seen := []engine.InstanceType{}, map[string]int{}
	for i, element := range elements {
		t, err := parseType(element)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", typeTitle(t.Name, i), err)
		}
		if first, found := seen[t.Name]; found {
			return nil, fmt.Errorf("%s: name: the same name as type number %d", typeTitle(t.Name, i), first)
		}
		seen[t.Name] = i + 1
		types = append(types, t)
	}
	Sort(types)
	return types, nil
}

func typeTitle(name string, index int) string {
	if name == "" {
		return fmt.Sprintf("type number %d", index+1)
	}
	return fmt.Sprintf("type %s (number %d)", name, index+1)
}

func parseType(element json.RawMessage) (engine.InstanceType, error) {
	var f fileType
	if err := json.Unmarshal(element, &f); err != nil {
		return engine.InstanceType{Name: f.Name}, jsonProblem(err, nil)
	}
	t := engine.InstanceType{Name: f.Name}
	if err := labelValue("name", f.Name); err != nil {
		return t, err
	}
	if err := labelValue("architecture", f.Architecture); err != nil {
		return t, err
	}
	if len(f.OperatingSystems) == 0 {
		return t, errors.New(`operatingSystems: missing: it lists at least one, such as ["linux"]`)
	}
	for _, os := range f.OperatingSystems {
		if err := labelValue("operatingSystems", os); err != nil {
			return t, err
		}
	}
	var err error
	if t.Capacity, err = capacity(f.Resources); err != nil {
		return t, err
	}
	if t.Overhead, err = overhead(f.Overhead, t.Capacity); err != nil {
		return t, err
	}
	if t.Labels, err = fileLabels(f, t.Capacity); err != nil {
		return t, err
	}
	if t.AttachLimits, err = attachLimits(f.AttachLimits); err != nil {
		return t, err
	}
	if t.Claimable, err = claimable(f.Claimable); err != nil {
		return t, err
	}
	t.Offerings, err = offerings(f.Name, f.Offerings)
	return t, err
}

func attachLimits(limits map[string]int) (map[string]int, error) {
	for _, driver := range slices.Sorted(maps.Keys(limits)) {
		if problems := validation.IsDNS1123Subdomain(strings.ToLower(driver)); len(problems) > 0 {
			return nil, fmt.Errorf("attachLimits: %q is not the name of a CSI driver: %s", driver, problems[0])
		}
		if limits[driver] < 0 || limits[driver] > math.MaxInt32 {
			return nil, fmt.Errorf("attachLimits.%s: %d is no number of volumes", driver, limits[driver])
		}
	}
	if len(limits) == 0 {
		return nil, nil
	}
	return limits, nil
}

func capacity(resources map[string]json.RawMessage) (corev1.ResourceList, error) {
	list, err := quantities("resources", resources)
	if err != nil {
		return nil, err
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, found := list[name]; !found || q.IsZero() {
			return nil, fmt.Errorf("resources.%s: missing: every machine has some", name)
		}
	}
	if _, found := list[corev1.ResourcePods]; !found {
		list[corev1.ResourcePods] = resource.MustParse("110")
	}
	return list, nil
}

func overhead(resources map[string]json.RawMessage, capacity corev1.ResourceList) (corev1.ResourceList, error) {
	list := kwokOverhead()
	if resources != nil {
		var err error
		if list, err = quantities("overhead", resources); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		kept, has := list[name], capacity[name]
		if kept.Cmp(has) > 0 {
			return nil, fmt.Errorf("resources.%s: %s is less than the %s that the system keeps back", name, has.String(), kept.String())
		}
	}
	return list, nil
}

func quantities(field string, resources map[string]json.RawMessage) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return nil, fmt.Errorf("%s: %q is not the name of a resource: %s", field, name, problems[0])
		}
		var q resource.Quantity
		if err := q.UnmarshalJSON(resources[name]); err != nil || string(resources[name]) == "null" {
			return nil, fmt.Errorf(`%s.%s: %s is not a quantity such as "2" or "4Gi"`, field, name, resources[name])
		}
		if q.Sign() < 0 {
			return nil, fmt.Errorf("%s.%s: %s is negative", field, name, q.String())
		}
		list[corev1.ResourceName(name)] = q
	}
	return list, nil
}

func fileLabels(f fileType, capacity corev1.ResourceList) (map[string][]string, error) {
	labels := kwokLabels(f.Name, f.Architecture, f.OperatingSystems, capacity)
	if f.Labels != nil {
		labels = map[string][]string{
			corev1.LabelArchStable: {f.Architecture},
			corev1.LabelOSStable:   f.OperatingSystems,
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		field := "labels." + key
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return nil, fmt.Errorf("labels: %q is not a label key: %s", key, problems[0])
		}
		if settledElsewhere(key) {
			return nil, fmt.Errorf("%s: this label is settled by another field", field)
		}
		for _, value := range f.Labels[key] {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				return nil, fmt.Errorf("%s: %q is not a label value: %s", field, value, problems[0])
			}
		}
		labels[key] = f.Labels[key]
	}
	for key, values := range labels {
		if values == nil {
			labels[key] = []string{}
		}
	}
	return labels, nil
}

// labelValue checks a required field whose value becomes the value of a label.
func labelValue(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s: missing", field)
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return fmt.Errorf("%s: %q is not a label value: %s", field, value, problems[0])
	}
	return nil
}

// jsonProblem describes an error in a piece of JSON. If content is the whole file, it names the line.
func jsonProblem(err error, content []byte) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && content != nil {
		line := 1 + bytes.Count(content[:min(int(syntax.Offset), len(content))], []byte("\n"))
		return fmt.Errorf("line %d is not JSON: %w", line, err)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return fmt.Errorf("a JSON %s stands where %s belongs", kind.Value, jsonKind(kind))
		}
		return fmt.Errorf("%s: a JSON %s stands where %s belongs", kind.Field, kind.Value, jsonKind(kind))
	}
	return err
}

func jsonKind(err *json.UnmarshalTypeError) string {
	switch err.Type.Kind().String() {
	case "string":
		return "a string"
	case "float64", "int64":
		return "a number"
	case "bool":
		return "true or false"
	case "slice":
		return "an array"
	}
	return "an object"
}
