package overlay_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
)

// gpus returns the accelerators that a pool's machines of type gpu are planned with, and their source.
func gpus(s *engine.Snapshot) (shows string, source *engine.DeviceSource) {
	t := kube.NewTypeIndex(s).Find(s.NodePools[0].Spec.Template.Spec.NodeClassRef, "p", "gpu")
	return accelerator.Words(t.Capacity), t.Devices
}

func TestSourcesOfDevicesAreBelievedInOrder(t *testing.T) {
	t.Parallel()
	const slices = "pool p labels=nvidia.com/mig.config:all-1g.5gb\n"
	const kind = "type gpu cpu=8 mem=16Gi price=1 nvidia.com/gpu=1 labels=karpenter.k8s.aws/instance-gpu-name:a100,karpenter.k8s.aws/instance-gpu-memory:40960\n"
	userData := &engine.DeviceSource{Source: "user data", Physical: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
	for _, c := range []struct{ name, text, shows, source, node, differs string }{
		{"hardware", "pool p\n" + kind, "1 nvidia.com/gpu", "", "", ""},
		{"a node", "pool p\n" + kind + "node n pool=p type=gpu allocatable=nvidia.com/gpu:4\n", "4 nvidia.com/gpu", "", "n", "node n, of type gpu, shows 4 nvidia.com/gpu, and the catalog says 1 nvidia.com/gpu"},
		{"a label", slices + kind, "7 nvidia.com/gpu", "label nvidia.com/mig.config=all-1g.5gb of the pool", "", ""},
		{"a node against a label", slices + kind + "node n pool=p type=gpu labels=nvidia.com/mig.config:all-1g.5gb allocatable=nvidia.com/gpu:0,nvidia.com/mig-1g.5gb:7\n", "7 nvidia.com/mig-1g.5gb", "label nvidia.com/mig.config=all-1g.5gb of the pool", "n", "says 7 nvidia.com/gpu"},
		{"user data before a label", "user data" + slices + kind, "3 nvidia.com/gpu", "user data", "", ""},
		{"an overlay before user data", "user data" + slices + kind + "overlay o nvidia.com/gpu=5\n", "5 nvidia.com/gpu", "NodeOverlay o", "", ""},
		{"a node that is not ready yet", "pool p\n" + kind + "node n pool=p type=gpu uninitialized allocatable=nvidia.com/gpu:4\n", "1 nvidia.com/gpu", "", "", ""},
		{"a drifted node", "pool p\n" + kind + "node n pool=p type=gpu drifted allocatable=nvidia.com/gpu:4\n", "1 nvidia.com/gpu", "", "", ""},
		{"a node of another pool", "pool p\n" + "pool q\n" + kind + "node n pool=q type=gpu allocatable=nvidia.com/gpu:4\n", "1 nvidia.com/gpu", "", "", "NodePool q"},
	} {
		text, told := strings.CutPrefix(c.text, "user data")
		s := cluster(t, text)
		if told {
			s.Classes = s.ListedClasses()
			kind := &s.Classes[0].InstanceTypes[0]
			kind.Capacity["nvidia.com/gpu"], kind.Devices = resource.MustParse("3"), userData
		}
		overlay.Apply(s)
		shows, d := gpus(s)
		if d == nil {
			d = &engine.DeviceSource{}
		}
		if shows != c.shows || d.Source != c.source || d.Node != c.node {
			t.Errorf("%s: %s by %+v, want %s by %q and node %q", c.name, shows, d, c.shows, c.source, c.node)
		}
		differs := ""
		for _, d := range overlay.DifferingPools(s) {
			differs += "NodePool " + d.Pool.Name + ": " + d.Message
		}
		if (differs == "") != (c.differs == "") || !strings.Contains(differs, c.differs) {
			t.Errorf("%s: differs %q, want %q", c.name, differs, c.differs)
		}
	}
}

// Impossible user data does not determine the devices that nodes show, so the pool's label counts. An unknown label is a problem too.
func TestSharingThatCannotBeIsNoSource(t *testing.T) {
	t.Parallel()
	const kind = "type gpu cpu=8 mem=16Gi price=1 nvidia.com/gpu=1 labels=karpenter.k8s.aws/instance-gpu-name:a100,karpenter.k8s.aws/instance-gpu-memory:40960\n"
	for label, want := range map[string]string{"": "cannot be", " labels=nvidia.com/mig.config:all-1g.5gb": "", " labels=nvidia.com/mig.config:other": "nobody knows what label nvidia.com/mig.config=other of the pool makes of a GPU \"a100\": say it in a NodeOverlay"} {
		s := cluster(t, "pool p"+label+"\n"+kind)
		s.Classes = s.ListedClasses()
		s.Classes[0].InstanceTypes[0].Devices = &engine.DeviceSource{Source: "user data", Problem: "cannot be", Physical: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
		overlay.Apply(s)
		shows, d := gpus(s)
		if d.Problem != want || (shows == "7 nvidia.com/gpu") != (want == "") {
			t.Errorf("%q: %s by %+v", label, shows, d)
		}
	}
}

func TestWhatANodeShowsReachesPlansAndMachinesAtOnce(t *testing.T) {
	t.Parallel()
	const text = "pool p\ntype gpu cpu=8 mem=16Gi price=1 nvidia.com/gpu=1\n"
	var m overlay.Memo
	before, after := cluster(t, text), cluster(t, text+"node n pool=p type=gpu allocatable=nvidia.com/gpu:4\n")
	m.Lay(before)
	after.Classes, after.NodePools = before.ListedClasses(), before.NodePools
	m.Lay(after)
	if shows, _ := gpus(after); shows != "4 nvidia.com/gpu" {
		t.Errorf("planned with %s", shows)
	}
	machine := engine.Machine{}
	overlay.AddTo(&machine, kube.NewTypeIndex(after).Find(after.NodePools[0].Spec.Template.Spec.NodeClassRef, "p", "gpu"))
	if got := accelerator.Words(machine.Allocatable); got != "4 nvidia.com/gpu" {
		t.Errorf("the machine is said to have %s", got)
	}
}
