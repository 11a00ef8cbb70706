package scenario

import (
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

// labelKey returns the label for a short name. It returns other names unchanged.
func labelKey(name string) string {
	switch name {
	case "zone":
		return corev1.LabelTopologyZone
	case "region":
		return corev1.LabelTopologyRegion
	case "arch":
		return corev1.LabelArchStable
	case "os":
		return corev1.LabelOSStable
	case "type":
		return corev1.LabelInstanceTypeStable
	case "capacity":
		return v1.CapacityTypeLabelKey
	case "pool":
		return v1.NodePoolLabelKey
	case "hostname":
		return corev1.LabelHostname
	}
	return name
}

// resourceName returns the resource for a short name. ok is false for words that are not resources.
func resourceName(name string) (resource corev1.ResourceName, ok bool) {
	switch name {
	case "cpu", "pods":
		return corev1.ResourceName(name), true
	case "mem", "memory":
		return corev1.ResourceMemory, true
	case "storage", "ephemeral-storage":
		return corev1.ResourceEphemeralStorage, true
	case "nodes":
		return v1.ResourceNodes, true
	}
	return corev1.ResourceName(name), strings.Contains(name, "/") || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

// isResource reports whether the word has the form cpu=2.
func (w word) isResource() bool {
	key, _ := w.cut()
	_, ok := resourceName(key)
	return ok && w.hasValue()
}

// addResource reads a word of the form cpu=2 into the list.
func (w word) addResource(to *corev1.ResourceList) error {
	key, value := w.cut()
	name, _ := resourceName(key)
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return w.errorf("%q is not a quantity such as 500m, 2 or 4Gi", value)
	}
	if *to == nil {
		*to = corev1.ResourceList{}
	}
	(*to)[name] = q
	return nil
}

// pair is one element of a list such as a:1,b:2.
type pair struct{ key, value string }

// pairs reads a value of the form a:1,b:2. An element without a colon has an empty value.
func (w word) pairs() []pair {
	_, value := w.cut()
	var out []pair
	for _, element := range splitList(value) {
		// Keys contain no colon, but values may: hours, for example.
		key, v, _ := strings.Cut(element, ":")
		out = append(out, pair{key, v})
	}
	return out
}

// resources reads a value of the form cpu:2,mem:1Gi.
func (w word) resources() (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, p := range w.pairs() {
		element := word{w.line, p.key + "=" + p.value}
		if !element.isResource() {
			return nil, w.errorf("%q is not a resource", p.key)
		}
		if err := element.addResource(&list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// addLabels reads a value of the form team:blue,zone:a into the map.
func (w word) addLabels(to *map[string]string) {
	if *to == nil {
		*to = map[string]string{}
	}
	for _, p := range w.pairs() {
		(*to)[labelKey(p.key)] = p.value
	}
}

func addLabel(to *map[string]string, key, value string) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
}

// volumes is the usual argument of counts, for its error.
const volumes = "volumes: write attach=DRIVER:25"

// counts reads a value of the form driver:25,other:3.
func (w word) counts(of string) (map[string]int, error) {
	out := map[string]int{}
	for _, p := range w.pairs() {
		n, err := strconv.Atoi(p.value)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return nil, w.errorf("%q is not a number of %s", p.value, of)
		}
		out[p.key] = n
	}
	return out, nil
}

// list reads a value of the form a,b,c.
func (w word) list() []string {
	_, value := w.cut()
	return splitList(value)
}

func splitList(text string) []string {
	var out []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			out = append(out, element)
		}
	}
	return out
}

func (w word) duration() (time.Duration, error) {
	_, value := w.cut()
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, w.errorf("%q is not a duration such as 30s or 1h30m", value)
	}
	return d, nil
}

// since reads the time since an event into to, which is nil if the word is absent.
func (w word) since(to **time.Duration) error {
	d, err := w.duration()
	*to = &d
	return err
}

func (w word) nillableDuration() (v1.NillableDuration, error) {
	if _, value := w.cut(); value == v1.Never {
		return v1.NillableDuration{}, nil
	}
	d, err := w.duration()
	return v1.DurationOf(d), err
}

func (w word) number() (int, error) {
	_, value := w.cut()
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, w.errorf("%q is not a whole number", value)
	}
	return n, nil
}

func (w word) number32() (int32, error) {
	n, err := w.number()
	if err == nil && int(int32(n)) != n {
		return 0, w.errorf("%d is too large", n)
	}
	return int32(n), err
}

func (w word) price() (float64, error) {
	_, value := w.cut()
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || !(p >= 0) || math.IsInf(p, 0) {
		return 0, w.errorf("%q is not a price in USD per hour", value)
	}
	return p, nil
}

// bytes reads an amount of memory.
func (w word) bytes() (int64, error) {
	_, value := w.cut()
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return 0, w.errorf("%q is not an amount of memory such as 256Mi", value)
	}
	return q.Value(), nil
}

func (w word) share() (float64, error) {
	_, value := w.cut()
	s, err := strconv.ParseFloat(value, 64)
	if err != nil || !(s >= 0) || math.IsInf(s, 0) {
		return 0, w.errorf("%q is not a share such as 0.1", value)
	}
	return s, nil
}

// taint reads a value of the form key=value:Effect or key:Effect.
func (w word) taint() (corev1.Taint, error) {
	_, text := w.cut()
	key, effect, ok := strings.Cut(text, ":")
	if !ok || key == "" {
		return corev1.Taint{}, w.errorf("write a taint as key=value:NoSchedule or key:NoSchedule")
	}
	key, value, _ := strings.Cut(key, "=")
	switch e := corev1.TaintEffect(effect); e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return corev1.Taint{Key: key, Value: value, Effect: e}, nil
	}
	return corev1.Taint{}, w.errorf("there is no taint effect %q", effect)
}

// toleration reads a value of the form key=value:Effect. The value and the effect may be omitted; * tolerates everything.
func (w word) toleration() corev1.Toleration {
	_, text := w.cut()
	if text == "*" {
		return corev1.Toleration{Operator: corev1.TolerationOpExists}
	}
	key, effect, _ := strings.Cut(text, ":")
	key, value, valued := strings.Cut(key, "=")
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if valued {
		t.Operator, t.Value = corev1.TolerationOpEqual, value
	}
	return t
}
