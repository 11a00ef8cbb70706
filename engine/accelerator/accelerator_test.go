package accelerator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
)

func list(amounts map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range amounts {
		out[name] = resource.MustParse(text)
	}
	return out
}

func TestSharedGPUsAreShownAsThePluginDoes(t *testing.T) {
	a100 := accelerator.Model{Name: "a100", MemoryMiB: 40960}
	for _, c := range []struct {
		name    string
		sharing accelerator.Sharing
		gpus    int
		want    string
	}{
		{"whole", accelerator.Sharing{}, 4, "no accelerators"},
		{"one replica", accelerator.Sharing{Strategy: "time-slicing", Replicas: 1, Renamed: true}, 4, "no accelerators"},
		{"by turns", accelerator.Sharing{Strategy: "time-slicing", Replicas: 4}, 2, "8 nvidia.com/gpu"},
		{"renamed", accelerator.Sharing{Strategy: "mps", Replicas: 4, Renamed: true}, 2, "8 nvidia.com/gpu.shared"},
		{"slices", accelerator.Sharing{Profile: map[string]string{"a100.40gb": "1g.5gb"}}, 8, "56 nvidia.com/gpu"},
		{"slices by number", accelerator.Sharing{Profile: map[string]string{"a100.40gb": "3"}}, 8, "24 nvidia.com/gpu"},
		{"slices of another model", accelerator.Sharing{Profile: map[string]string{"a100.80gb": "1g.10gb"}}, 8, "no accelerators"},
		{"a profile that the model lacks", accelerator.Sharing{Profile: map[string]string{"a100.40gb": "9g.5gb"}}, 8, "no accelerators"},
		{"slices by turns", accelerator.Sharing{Strategy: "time-slicing", Replicas: 2, Profile: map[string]string{"a100.40gb": "1g.5gb"}}, 1, "14 nvidia.com/gpu"},
		{"slices, and a setting that cannot be", accelerator.Sharing{Problem: "replicas is 0", Profile: map[string]string{"a100.40gb": "1g.5gb"}}, 8, "no accelerators"},
		{"none", accelerator.Sharing{Strategy: "time-slicing", Replicas: 4}, 0, "no accelerators"},
	} {
		if got := accelerator.Words(c.sharing.Shows(a100, c.gpus)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAModelIsKnownByNameAndMemory(t *testing.T) {
	for _, c := range []struct {
		name, memory, layout, want string
		known                      bool
	}{
		{"a100", "40960", "all-1g.5gb", "7 nvidia.com/gpu", true},
		{"a100", "81920", "all-1g.5gb", "no accelerators", false},
		{"a100", "81920", "all-1g.10gb", "7 nvidia.com/gpu", true},
		{"h200", "144384", "all-balanced", "2 nvidia.com/mig-1g.18gb, 1 nvidia.com/mig-2g.35gb, 1 nvidia.com/mig-3g.71gb", true},
		{"rtx-pro-server-6000", "98304", "all-2g.48gb", "2 nvidia.com/gpu", true},
		{"t4", "16384", "all-balanced", "no accelerators", false},
		{"a100", "40960", "all-disabled", "no accelerators", true},
		{"A100", "", "all-1g.10gb", "7 nvidia.com/gpu", true},
		{"a100", "40960", "custom", "no accelerators", false},
	} {
		kind := &engine.InstanceType{Labels: map[string][]string{"karpenter.k8s.aws/instance-gpu-name": {c.name}, "karpenter.k8s.aws/instance-gpu-memory": {c.memory}}}
		shows, known := accelerator.MIG(c.layout, "", accelerator.ModelOf(kind), 1)
		if got := accelerator.Words(shows); got != c.want || known != c.known {
			t.Errorf("%s with %s MiB, %s: got %s (known: %v), want %s (known: %v)", c.name, c.memory, c.layout, got, known, c.want, c.known)
		}
	}
	if shows, known := accelerator.MIG("all-balanced", "single", accelerator.Model{Name: "a100"}, 1); known {
		t.Errorf("slices that differ cannot count as GPUs: got %s", accelerator.Words(shows))
	}
}

func TestPartsAreToldFromWholeDevices(t *testing.T) {
	for name, want := range map[corev1.ResourceName]corev1.ResourceName{
		"nvidia.com/gpu": "", "nvidia.com/gpu.shared": "nvidia.com/gpu", "nvidia.com/mig-1g.5gb": "nvidia.com/gpu",
		"nvidia.com/mig-1g.5gb.shared": "nvidia.com/gpu", "amd.com/gpu": "", "example.com/fuse.shared": "",
	} {
		if got := accelerator.Whole(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	whole := list(map[corev1.ResourceName]string{"nvidia.com/gpu": "8"})
	for text, lacks := range map[string]bool{"7": true, "8": false, "28": true, "32": false} {
		if got := accelerator.Lacking(list(map[corev1.ResourceName]string{"nvidia.com/gpu": text}), whole); got != lacks {
			t.Errorf("%s of 8: got %v", text, got)
		}
	}
	if accelerator.Lacking(list(map[corev1.ResourceName]string{"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}), whole) {
		t.Error("renamed devices have not failed")
	}
	for text, lacks := range map[string]bool{"28": true, "32": false} {
		if got := accelerator.Lacking(list(map[corev1.ResourceName]string{"nvidia.com/gpu.shared": text}), whole); got != lacks {
			t.Errorf("%s shared ones of 8: got %v", text, got)
		}
	}
	if accelerator.Lacking(list(map[corev1.ResourceName]string{"nvidia.com/gpu": "6", "nvidia.com/mig-1g.5gb": "14"}), whole) {
		t.Error("two devices of eight are cut")
	}
}
