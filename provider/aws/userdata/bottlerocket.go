package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
)

// A table of TOML.
type table = map[string]any

// renderBottlerocket merges Tenon's settings into the user's; Tenon's override. It drops keys that Bottlerocket's settings.kubernetes does not have,
// because Bottlerocket would not boot with them.
func renderBottlerocket(in Input, k Kubelet) (Output, error) {
	var own table
	if err := toml.Unmarshal([]byte(in.Text), &own); err != nil {
		return Output{}, badTOML(err)
	}
	settings, err := subtable(own, "settings")
	if err != nil {
		return Output{}, err
	}
	dropped := &droppedKeys{}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if name != "settings" {
			dropped.add(name)
		}
	}
	kubernetes, err := known(settings["kubernetes"], kubernetesKeys(), "settings.kubernetes", dropped)
	if err != nil {
		return Output{}, err
	}
	if err := setKubernetes(kubernetes, in, k); err != nil {
		return Output{}, err
	}
	commands, err := known(settings["bootstrap-commands"], bootstrapCommandKeys(), "settings.bootstrap-commands", dropped)
	if err != nil {
		return Output{}, err
	}
	if in.RAID0 {
		commands["000-mount-instance-storage"] = mountInstanceStorage(in.BottlerocketVersion)
	}
	settings["kubernetes"] = kubernetes
	if len(commands) > 0 {
		settings["bootstrap-commands"] = commands
	}
	text, err := toml.Marshal(table{"settings": settings})
	if err != nil {
		return Output{}, fmt.Errorf("write Bottlerocket's settings: %w", err)
	}
	return Output{Text: string(text), Dropped: dropped.names}, nil
}

func badTOML(err error) error {
	var where *toml.DecodeError
	if errors.As(err, &where) {
		line, column := where.Position()
		return fmt.Errorf("read spec.userData as Bottlerocket's TOML: line %d, column %d: %s", line, column, where.Error())
	}
	return fmt.Errorf("read spec.userData as Bottlerocket's TOML: %w", err)
}

// subtable returns a table within a table, an empty one if there is none.
func subtable(of table, name string) (table, error) {
	switch value := of[name].(type) {
	case nil:
		return table{}, nil
	case table:
		return value, nil
	default:
		return nil, notATable(name)
	}
}

func notATable(name string) error {
	return fmt.Errorf("read spec.userData as Bottlerocket's TOML: %s is a value, it must be a table", name)
}

// setKubernetes writes the settings that join the machine to its cluster over the user's settings.kubernetes.
func setKubernetes(to table, in Input, k Kubelet) error {
	to["cluster-name"] = in.ClusterName
	to["api-server"] = in.Endpoint
	to["max-pods"] = in.MaxPods
	if in.CABundle != "" {
		to["cluster-certificate"] = in.CABundle
	}
	if dns := k.firstDNS(); dns != "" {
		to["cluster-dns-ip"] = dns
	}
	labels, err := subtable(to, "node-labels")
	if err != nil {
		return notATable("settings.kubernetes.node-labels")
	}
	for key, value := range in.Labels {
		labels[key] = value
	}
	if len(labels) > 0 {
		to["node-labels"] = labels
	}
	delete(to, "node-taints")
	if len(in.Taints) > 0 {
		to["node-taints"] = taintTable(in.Taints)
	}
	setKubelet(to, k)
	return nil
}

// setKubelet writes the fields of spec.kubelet that are set. Bottlerocket wants some numbers as text.
func setKubelet(to table, k Kubelet) {
	for name, value := range map[string]map[string]string{
		"system-reserved":            k.SystemReserved,
		"kube-reserved":              k.KubeReserved,
		"eviction-hard":              k.EvictionHard,
		"eviction-soft":              k.EvictionSoft,
		"eviction-soft-grace-period": durations(k.EvictionSoftGracePeriod),
	} {
		if value != nil {
			to[name] = value
		}
	}
	if k.EvictionMaxPodGracePeriod != nil {
		to["eviction-max-pod-grace-period"] = *k.EvictionMaxPodGracePeriod
	}
	if k.ImageGCHighThresholdPercent != nil {
		to["image-gc-high-threshold-percent"] = strconv.Itoa(int(*k.ImageGCHighThresholdPercent))
	}
	if k.ImageGCLowThresholdPercent != nil {
		to["image-gc-low-threshold-percent"] = strconv.Itoa(int(*k.ImageGCLowThresholdPercent))
	}
	if k.CPUCFSQuota != nil {
		to["cpu-cfs-quota-enforced"] = *k.CPUCFSQuota
	}
}

// taintTable lists the values and effects of each taint's key.
func taintTable(taints []corev1.Taint) map[string][]string {
	out := map[string][]string{}
	for _, t := range taints {
		out[t.Key] = append(out[t.Key], fmt.Sprintf("%s:%s", t.Value, t.Effect))
	}
	return out
}

// mountInstanceStorage returns the command that combines the local disks into one, and puts pods and images there.
func mountInstanceStorage(version string) table {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if !bindsByDefault(version) {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	return table{
		"commands":  [][]string{{"apiclient", "ephemeral-storage", "init"}, bind},
		"mode":      "always",
		"essential": true,
	}
}
