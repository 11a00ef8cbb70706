package userdata

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubelet holds the fields of spec.kubelet that every family accepts. maxPods is left out, because the real number depends on the machine's
// type, and the field may hold an expression.
type Kubelet struct {
	ClusterDNS                  []string                   `json:"clusterDNS,omitempty"`
	PodsPerCore                 *int32                     `json:"podsPerCore,omitempty"`
	SystemReserved              map[string]string          `json:"systemReserved,omitempty"`
	KubeReserved                map[string]string          `json:"kubeReserved,omitempty"`
	EvictionHard                map[string]string          `json:"evictionHard,omitempty"`
	EvictionSoft                map[string]string          `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod     map[string]metav1.Duration `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMaxPodGracePeriod   *int32                     `json:"evictionMaxPodGracePeriod,omitempty"`
	ImageGCHighThresholdPercent *int32                     `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLowThresholdPercent  *int32                     `json:"imageGCLowThresholdPercent,omitempty"`
	CPUCFSQuota                 *bool                      `json:"cpuCFSQuota,omitempty"`
}

// knownEverywhere returns the names of Kubelet's fields, and maxPods.
func knownEverywhere() []string {
	return []string{
		"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft",
		"evictionSoftGracePeriod", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent",
		"imageGCLowThresholdPercent", "cpuCFSQuota",
	}
}

// ReadKubelet reads the fields that every family accepts, and ignores the others.
func ReadKubelet(fields map[string]any) (Kubelet, error) {
	known := map[string]any{}
	for _, name := range knownEverywhere() {
		if value, ok := fields[name]; ok && name != "maxPods" {
			known[name] = value
		}
	}
	text, err := json.Marshal(known)
	if err != nil {
		return Kubelet{}, fmt.Errorf("read spec.kubelet: %w", err)
	}
	var out Kubelet
	err = json.Unmarshal(text, &out)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Kubelet{}, fmt.Errorf("read spec.kubelet: %s is a %s, it must be a %s", cmp.Or(wrong.Field, "it"), wrong.Value, wrong.Type)
	}
	if err != nil {
		return Kubelet{}, fmt.Errorf("read spec.kubelet: %w", err)
	}
	return out, nil
}

// firstDNS returns the address of the DNS for families that accept only one.
func (k Kubelet) firstDNS() string {
	if len(k.ClusterDNS) == 0 {
		return ""
	}
	return k.ClusterDNS[0]
}

// arguments returns the kubelet's flags, for families whose boot script takes them as text.
func arguments(in Input, k Kubelet) string {
	var args []string
	if labels := joined(in.Labels, "="); labels != "" {
		args = append(args, `--node-labels="`+labels+`"`)
	}
	if len(in.Taints) > 0 {
		args = append(args, `--register-with-taints="`+taintList(in.Taints)+`"`)
	}
	args = append(args, fmt.Sprintf("--max-pods=%d", in.MaxPods))
	number := func(name string, value *int32) {
		if value != nil {
			args = append(args, fmt.Sprintf("--%s=%d", name, *value))
		}
	}
	list := func(name, text string) {
		if text != "" {
			args = append(args, fmt.Sprintf(`--%s="%s"`, name, text))
		}
	}
	number("pods-per-core", k.PodsPerCore)
	list("system-reserved", joined(k.SystemReserved, "="))
	list("kube-reserved", joined(k.KubeReserved, "="))
	list("eviction-hard", joined(k.EvictionHard, "<"))
	list("eviction-soft", joined(k.EvictionSoft, "<"))
	list("eviction-soft-grace-period", joined(durations(k.EvictionSoftGracePeriod), "="))
	number("eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	number("image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	number("image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		args = append(args, "--cpu-cfs-quota="+strconv.FormatBool(*k.CPUCFSQuota))
	}
	return strings.Join(args, " ")
}

// durations formats durations as Go does, which kubelets can parse.
func durations(of map[string]metav1.Duration) map[string]string {
	if of == nil {
		return nil
	}
	out := make(map[string]string, len(of))
	for key, d := range of {
		out[key] = d.Duration.String()
	}
	return out
}

// joined returns the pairs in order of key, in the form of kubelet flags.
func joined(pairs map[string]string, between string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, key+between+pairs[key])
	}
	return strings.Join(out, ",")
}

func taintList(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		if t.Value == "" {
			out = append(out, fmt.Sprintf("%s:%s", t.Key, t.Effect))
			continue
		}
		out = append(out, fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect))
	}
	return strings.Join(out, ",")
}
