package kubelet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	"tenon.sh/api/awsv1"
)

// Invalid lists the mistakes in spec.kubelet, each with its field: values that the kubelet would refuse, fields that the controller sets
// itself, and fields that KubeletConfiguration does not have.
func Invalid(raw *runtime.RawExtension) []string {
	if raw == nil || len(raw.Raw) == 0 {
		return nil
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw.Raw, &fields); err != nil {
		return []string{"spec.kubelet is not an object: " + err.Error()}
	}
	if text, isText := fields["maxPods"].(string); isText && text != "" {
		fields["maxPods"] = 0 // an expression, which is checked elsewhere
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return []string{"spec.kubelet: " + err.Error()}
	}
	var config kubeletv1beta1.KubeletConfiguration
	unknown, err := kjson.UnmarshalStrict(text, &config)
	if err != nil {
		return []string{"spec.kubelet: " + err.Error()}
	}
	var out []string
	for _, u := range unknown {
		out = append(out, "spec.kubelet: "+u.Error())
	}
	if _, ours := fields["registerWithTaints"]; ours {
		out = append(out, "spec.kubelet.registerWithTaints is set by the controller: use taints of the NodePool")
	}
	return append(out, violations(&config)...)
}

func violations(c *kubeletv1beta1.KubeletConfiguration) (out []string) {
	out = append(out, thresholds("evictionHard", c.EvictionHard)...)
	out = append(out, thresholds("evictionSoft", c.EvictionSoft)...)
	out = append(out, thresholds("evictionMinimumReclaim", c.EvictionMinimumReclaim)...)
	out = append(out, gracePeriods(c.EvictionSoftGracePeriod)...)
	soft, grace := slices.Sorted(maps.Keys(c.EvictionSoft)), slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod))
	if !slices.Equal(soft, grace) {
		out = append(out, fmt.Sprintf("spec.kubelet.evictionSoft and evictionSoftGracePeriod must have the same keys, they have %q and %q", soft, grace))
	}
	out = append(out, reservations("kubeReserved", c.KubeReserved)...)
	out = append(out, reservations("systemReserved", c.SystemReserved)...)
	out = append(out, percentages(c)...)
	for _, n := range []struct {
		field string
		value int32
	}{{"maxPods", c.MaxPods}, {"podsPerCore", c.PodsPerCore}, {"evictionMaxPodGracePeriod", c.EvictionMaxPodGracePeriod}} {
		if n.value < 0 {
			out = append(out, fmt.Sprintf("spec.kubelet.%s is %d, it cannot be negative", n.field, n.value))
		}
	}
	return out
}

// signals returns the signals that may have an eviction threshold.
func signals() []string {
	return []string{"imagefs.available", "imagefs.inodesFree", "memory.available", "nodefs.available", "nodefs.inodesFree", "pid.available"}
}

func unknownSignal(field, key string) []string {
	if slices.Contains(signals(), key) {
		return nil
	}
	return []string{fmt.Sprintf("spec.kubelet.%s: there is no signal %q, there are %s", field, key, strings.Join(signals(), ", "))}
}

func thresholds(field string, values map[string]string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, unknownSignal(field, key)...)
		value := values[key]
		if number, isPercent := strings.CutSuffix(value, "%"); isPercent {
			if n, err := strconv.ParseFloat(number, 64); err != nil || !(n >= 0 && n <= 100) {
				out = append(out, fmt.Sprintf("spec.kubelet.%s[%s] is %q, want a percentage from 0%% to 100%%", field, key, value))
			}
			continue
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
			out = append(out, fmt.Sprintf("spec.kubelet.%s[%s] is %q, want a percentage or a quantity that is not negative", field, key, value))
		}
	}
	return out
}

func gracePeriods(values map[string]string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, unknownSignal("evictionSoftGracePeriod", key)...)
		if d, err := time.ParseDuration(values[key]); err != nil || d < 0 {
			out = append(out, fmt.Sprintf("spec.kubelet.evictionSoftGracePeriod[%s] is %q, want a duration such as 1m30s", key, values[key]))
		}
	}
	return out
}

func reservations(field string, values map[string]string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, key) {
			out = append(out, fmt.Sprintf("spec.kubelet.%s: %q cannot be reserved, only cpu, memory, ephemeral-storage and pid", field, key))
		}
		if strings.HasPrefix(values[key], "-") {
			out = append(out, fmt.Sprintf("spec.kubelet.%s[%s] is %q, it cannot be negative", field, key, values[key]))
		}
	}
	return out
}

func percentages(c *kubeletv1beta1.KubeletConfiguration) (out []string) {
	high, low := c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent
	for _, p := range []struct {
		field string
		value *int32
	}{{"imageGCHighThresholdPercent", high}, {"imageGCLowThresholdPercent", low}} {
		if p.value != nil && (*p.value < 0 || *p.value > 100) {
			out = append(out, fmt.Sprintf("spec.kubelet.%s is %d, want 0 to 100", p.field, *p.value))
		}
	}
	if high != nil && low != nil && *high <= *low {
		out = append(out, fmt.Sprintf("spec.kubelet.imageGCHighThresholdPercent is %d, it must be more than imageGCLowThresholdPercent, which is %d", *high, *low))
	}
	return out
}

// Expressions returns the expressions that are computed for each instance type, by field.
func Expressions(m *Managed) map[string]string {
	out := map[string]string{}
	if m.MaxPods != nil && m.MaxPods.Type == intstr.String {
		out["maxPods"] = m.MaxPods.StrVal
	}
	for field, values := range map[string]map[string]string{"kubeReserved": m.KubeReserved, "systemReserved": m.SystemReserved} {
		for key, value := range values {
			if _, err := resource.ParseQuantity(value); err != nil {
				out[field+"["+key+"]"] = value
			}
		}
	}
	return out
}

// Unsupported lists fields that images of a family do not accept. AL2023 accepts all fields. For Custom images it returns none, because only
// their maker knows.
func Unsupported(family string, raw *runtime.RawExtension, m *Managed) (out []string) {
	if family == awsv1.FamilyAL2023 || family == awsv1.FamilyCustom {
		return nil
	}
	for _, name := range Unmanaged(raw) {
		out = append(out, fmt.Sprintf("spec.kubelet.%s cannot be set with amiFamily %s, only with AL2023", name, family))
	}
	if family == awsv1.FamilyBottlerocket && m.PodsPerCore != 0 {
		out = append(out, "spec.kubelet.podsPerCore cannot be set with amiFamily Bottlerocket: set maxPods")
	}
	if len(m.ClusterDNS) > 1 {
		out = append(out, fmt.Sprintf("spec.kubelet.clusterDNS has %d addresses, images of amiFamily %s take one", len(m.ClusterDNS), family))
	}
	return slices.SortedFunc(slices.Values(out), cmp.Compare[string])
}
