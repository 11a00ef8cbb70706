package userdata

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"tenon.sh/engine/accelerator"
)

// nvidiaPlugin holds the settings of Bottlerocket's NVIDIA device plugin that decide which resources a node shows.
type nvidiaPlugin struct {
	Strategy    string       `toml:"device-sharing-strategy"`
	TimeSlicing replication  `toml:"time-slicing"`
	MPS         replication  `toml:"mps"`
	Partition   string       `toml:"device-partitioning-strategy"`
	MIG         migPartition `toml:"mig"`
}

type replication struct {
	Replicas int   `toml:"replicas"`
	Rename   *bool `toml:"rename-by-default"`
}

type migPartition struct {
	Profile map[string]any `toml:"profile"`
}

// GPUSharing reads from the user's text how Bottlerocket's device plugin shares GPUs, in settings.kubelet-device-plugins.nvidia. An unset key
// has Bottlerocket's default: GPUs stay whole, and shared ones are renamed.
func GPUSharing(text string) (accelerator.Sharing, error) {
	var own struct {
		Settings struct {
			Plugins struct {
				NVIDIA nvidiaPlugin `toml:"nvidia"`
			} `toml:"kubelet-device-plugins"`
		} `toml:"settings"`
	}
	if err := toml.Unmarshal([]byte(text), &own); err != nil {
		return accelerator.Sharing{}, badTOML(err)
	}
	plugin := &own.Settings.Plugins.NVIDIA
	var out accelerator.Sharing
	const settings = "settings.kubelet-device-plugins.nvidia."
	set := func(strategy string, r replication) {
		if r.Replicas < 0 || r.Replicas > mostReplicas {
			out.Problem = fmt.Sprintf("%s%s.replicas is %d: it must be from 1 to %d", settings, strategy, r.Replicas, mostReplicas)
		}
		if r.Replicas > 1 && r.Replicas <= mostReplicas {
			out.Strategy, out.Replicas, out.Renamed = strategy, r.Replicas, r.Rename == nil || *r.Rename
		}
	}
	switch strings.ToLower(plugin.Strategy) {
	case "", "none":
	case "time-slicing":
		set("time-slicing", plugin.TimeSlicing)
	case "mps":
		plugin.MPS.Rename = new(false) // mps does not have this setting
		set("mps", plugin.MPS)
	default:
		out.Problem = fmt.Sprintf("%sdevice-sharing-strategy is %q: it can be none, time-slicing or mps", settings, plugin.Strategy)
	}
	if strings.EqualFold(plugin.Partition, "mig") && len(plugin.MIG.Profile) > 0 {
		out.Profile = map[string]string{}
		for model, profile := range plugin.MIG.Profile {
			out.Profile[model] = fmt.Sprint(profile)
		}
		if out.Strategy == "mps" {
			return accelerator.Sharing{Problem: settings + "device-sharing-strategy is mps, and slices of MIG cannot be shared by it: use time-slicing, or one of the two"}, nil
		}
	}
	return out, nil
}

// mostReplicas is the largest accepted number. A larger one is a typing error, and its products could overflow.
const mostReplicas = 10000
