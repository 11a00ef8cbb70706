package kwok_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/device"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

func (w *world) inject(t *testing.T, f simulated.Fault) {
	t.Helper()
	if err := w.cloud.Inject(f); err != nil {
		t.Fatal(err)
	}
}

// register acts like the controllers' registration of a node.
func (w *world) register(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := w.node(t, name)
	node.Labels[v1.RegisteredLabelKey], node.Finalizers, node.Spec.Taints = "true", []string{v1.TerminationFinalizer}, nil
	if err := w.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return node
}

func TestANodeComesAsTheFaultsSay(t *testing.T) {
	w := newWorld(t, 10*time.Second)
	w.inject(t, simulated.Fault{What: simulated.FaultLess, Resource: "memory", Factor: 0.5})
	w.inject(t, simulated.Fault{What: simulated.FaultTaint, Taint: "example.com/agent=x:NoSchedule"})
	w.inject(t, simulated.Fault{What: simulated.FaultTaint, Taint: "karpenter.sh/unregistered:NoExecute-"})
	w.inject(t, simulated.Fault{What: simulated.FaultLabel, Label: "team-"})
	w.inject(t, simulated.Fault{What: simulated.FaultAttach, Driver: "disk.example.com", Count: 3, Lag: metav1.Duration{Duration: time.Minute}})
	w.inject(t, simulated.Fault{What: simulated.FaultLateRegister, Lag: metav1.Duration{Duration: time.Hour}})
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.pass(t, time.Hour)
	w.tick(t)
	if got := w.nodeNames(t); got != nil {
		t.Errorf("nodes %v an hour after the launch, want none: they are to be late", got)
	}
	w.pass(t, 10*time.Second)
	next := w.tick(t)
	node := w.node(t, "a")
	if got, want := node.Status.Capacity.Memory().Value(), m.Capacity.Memory().Value()/2; got != want {
		t.Errorf("%d bytes of memory, want %d", got, want)
	}
	if got := node.Spec.Taints; len(got) != 1 || got[0].ToString() != "example.com/agent=x:NoSchedule" {
		t.Errorf("taints %v", got)
	}
	if want := w.clock.Now().Add(time.Second); !next.Equal(want) || node.Labels["team"] != "a" || node.Labels["kwok.x-k8s.io/node"] != "" {
		t.Errorf("the node, which is not registered, is looked at again at %v, want %v; it has the labels %v", next, want, node.Labels)
	}
	w.register(t, "a")
	w.tick(t)
	if labels := w.node(t, "a").Labels; labels["team"] != "" || labels["kwok.x-k8s.io/node"] != "fake" {
		t.Errorf("the registered node has the labels %v, want no team, and that KWOK makes it ready", labels)
	}
	csi := &storagev1.CSINode{}
	if err := w.client.Get(t.Context(), types.NamespacedName{Name: "a"}, csi); err == nil {
		t.Error("the node's CSINode is there before its time")
	}
	w.pass(t, time.Minute)
	w.tick(t)
	if err := w.client.Get(t.Context(), types.NamespacedName{Name: "a"}, csi); err != nil || len(csi.Spec.Drivers) != 1 || *csi.Spec.Drivers[0].Allocatable.Count != 3 {
		t.Errorf("CSINode %+v, %v", csi.Spec, err)
	}
	if len(csi.OwnerReferences) != 1 || csi.OwnerReferences[0].UID != node.UID {
		t.Errorf("the CSINode belongs to %v, want to the node", csi.OwnerReferences)
	}
	if next := w.tick(t); !next.IsZero() {
		t.Errorf("next %v: all is done", next)
	}
}

// Drivers publish a type's expected devices when its node registers, or as a fault defines, even if the process was restarted in between.
func TestDriversPublishTheDevicesOfANode(t *testing.T) {
	types := catalog.KWOK()
	pool := device.Template{Driver: "gpu.example.com", Pool: "gpus"}
	for i := range 3 {
		pool.Devices = append(pool.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", i), Shape: device.Shape{Driver: pool.Driver,
			Attributes: map[string]device.Value{"cores": {Kind: device.Number, Text: "7"}}}})
	}
	second := pool
	second.Pool, second.Devices, second.Counters = "more", slices.Clone(pool.Devices[:2]), []device.Counter{{Set: "gpu", Name: "memory", Amount: 80_000}}
	second.Devices[0].Consumes = second.Counters
	for _, c := range []struct {
		name  string
		fault *simulated.Fault
		want  []string // slices after 0, 10 and 20 minutes, each with its number of devices
		both  bool     // the type has the second pool too, which shares counters
	}{
		{"as expected", nil, []string{"3 of 1", "3 of 1", "3 of 1"}, false},
		{"late", &simulated.Fault{What: simulated.FaultSlices, Factor: 1, Lag: metav1.Duration{Duration: 10 * time.Minute}}, []string{"", "3 of 1", "3 of 1"}, false},
		{"in parts", &simulated.Fault{What: simulated.FaultSlices, Factor: 1, Parts: 2, Lag: metav1.Duration{Duration: 10 * time.Minute}}, []string{"", "1 of 2", "1 of 2 2 of 2"}, false},
		{"fewer", &simulated.Fault{What: simulated.FaultSlices, Count: 1, Driver: pool.Driver}, []string{"1 of 1", "1 of 1", "1 of 1"}, false},
		{"more", &simulated.Fault{What: simulated.FaultSlices, Factor: 2}, []string{"6 of 1", "6 of 1", "6 of 1"}, false},
		{"absurdly many", &simulated.Fault{What: simulated.FaultSlices, Factor: 1e300}, []string{"128 of 1", "128 of 1", "128 of 1"}, false},
		{"of another driver", &simulated.Fault{What: simulated.FaultSlices, Driver: "nic.example.com"}, []string{"3 of 1", "3 of 1", "3 of 1"}, false},
		{"never", &simulated.Fault{What: simulated.FaultSlices}, []string{"", "", ""}, false},
		{"two pools", nil, []string{"3 of 1 0 of 2 2 of 2", "3 of 1 0 of 2 2 of 2", "3 of 1 0 of 2 2 of 2"}, true},
		{"two pools late", &simulated.Fault{What: simulated.FaultSlices, Factor: 1, Lag: metav1.Duration{Duration: 10 * time.Minute}}, []string{"", "3 of 1 0 of 2", "3 of 1 0 of 2 2 of 2"}, true},
		{"two pools in parts", &simulated.Fault{What: simulated.FaultSlices, Factor: 1, Parts: 2}, []string{"1 of 2 2 of 2 0 of 3 1 of 3 1 of 3", "1 of 2 2 of 2 0 of 3 1 of 3 1 of 3", "1 of 2 2 of 2 0 of 3 1 of 3 1 of 3"}, true},
		{"two pools with fewer", &simulated.Fault{What: simulated.FaultSlices, Count: 1}, []string{"1 of 1 0 of 2 1 of 2", "1 of 1 0 of 2 1 of 2", "1 of 1 0 of 2 1 of 2"}, true},
		{"two pools never", &simulated.Fault{What: simulated.FaultSlices}, []string{"", "", ""}, true},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", c.name, restarted), func(t *testing.T) {
				w := newWorld(t, 0)
				of := []device.Template{pool}
				if c.both {
					of = append(of, second)
				}
				for i := range types {
					types[i].Claimable = of
				}
				begin := func() {
					w.catalog = types
					w.restart(t)
					if c.fault != nil {
						w.inject(t, *c.fault)
					}
				}
				begin()
				w.launch(t, w.newClaim(t, "a", nil, nil))
				w.tick(t)
				for i, want := range c.want {
					if w.tick(t); i > 0 {
						w.pass(t, 10*time.Minute)
						w.tick(t)
					}
					if got := w.slices(t); got != want {
						t.Errorf("after %d minutes: %q, want %q", 10*i, got, want)
					}
					if i == 0 && restarted {
						begin()
					}
				}
			})
		}
	}
}

// slices lists the published slices of node a.
func (w *world) slices(t *testing.T) string {
	t.Helper()
	var list resourcev1.ResourceSliceList
	if err := w.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range list.Items {
		if s.OwnerReferences[0].UID != w.node(t, "a").UID || *s.Spec.NodeName != "a" || len(s.Spec.Devices) > 0 && *s.Spec.Devices[0].Attributes["cores"].IntValue != 7 || len(s.Spec.Devices) == 0 && len(s.Spec.SharedCounters) != 1 {
			t.Errorf("slice %+v", s)
		}
		out = append(out, fmt.Sprintf("%d of %d", len(s.Spec.Devices), s.Spec.Pool.ResourceSliceCount))
	}
	return strings.Join(out, " ")
}

func TestANodeGoesAndItsMachineStays(t *testing.T) {
	for _, what := range []string{simulated.FaultGone, simulated.FaultBare} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 0)
			m := w.launch(t, w.newClaim(t, "a", nil, nil))
			w.tick(t)
			before := w.register(t, "a")
			w.pass(t, time.Second)
			w.inject(t, simulated.Fault{What: what})
			w.tick(t)
			w.tick(t)
			if _, err := w.provider.Machine(t.Context(), m.ID); err != nil {
				t.Errorf("the machine: %v", err)
			}
			if what == simulated.FaultGone {
				if got := w.nodeNames(t); got != nil {
					t.Errorf("nodes %v, want none", got)
				}
				return
			}
			node := w.node(t, "a")
			if node.UID == before.UID || node.Labels[v1.RegisteredLabelKey] != "" || len(node.Finalizers) != 0 || len(node.Spec.Taints) != 1 {
				t.Errorf("the node is %v, want one that has just been made", node)
			}
			w.terminate(t, m.ID)
			w.tick(t)
			if got := w.nodeNames(t); got != nil {
				t.Errorf("nodes %v after the end of the machine", got)
			}
		})
	}
}

func TestASecondNodeOfAMachineGoesWithIt(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := newWorld(t, 0)
		m := w.launch(t, w.newClaim(t, "a", nil, nil))
		w.tick(t)
		w.register(t, "a")
		w.inject(t, simulated.Fault{What: simulated.FaultSecond})
		w.tick(t)
		second := w.node(t, "a"+simulated.SecondSuffix)
		if second.Spec.ProviderID != string(m.ID) || second.Labels[v1.RegisteredLabelKey] != "" || len(second.Spec.Taints) != 1 || second.Labels[corev1.LabelHostname] != second.Name {
			t.Errorf("the second node is %v", second)
		}
		if restarted {
			w.restart(t)
			if list, err := w.provider.Machines(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("after a restart there are machines %v, %v; want one", list, err)
			}
		}
		w.inject(t, simulated.Fault{What: simulated.FaultKill})
		node := w.node(t, "a")
		node.Finalizers = nil
		if err := w.client.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		w.tick(t)
		if got := w.nodeNames(t); got != nil {
			t.Errorf("restarted %v: nodes %v after the end of the machine", restarted, got)
		}
	}
}

// A fault that the API server refuses is tried again.
func TestAFaultIsTriedAgain(t *testing.T) {
	w := newWorld(t, 0)
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.tick(t)
	w.inject(t, simulated.Fault{What: simulated.FaultSecond})
	w.broken = errors.New("no answer")
	if next, err := w.provider.Tick(t.Context()); err == nil || next.IsZero() {
		t.Errorf("next %v, %v", next, err)
	}
	w.broken = nil
	w.tick(t)
	w.node(t, "a"+simulated.SecondSuffix)
}

// Devices appear with their plugin, as many as the plugin shows, some under another name.
func TestDevicesComeLateAndOtherwise(t *testing.T) {
	w := newWorld(t, 10*time.Second)
	w.inject(t, simulated.Fault{What: simulated.FaultDevices, Resource: "nvidia.com/gpu", Lag: metav1.Duration{Duration: time.Minute}})
	w.inject(t, simulated.Fault{What: simulated.FaultDevices, Resource: "nvidia.com/gpu.shared", Count: 2, Lag: metav1.Duration{Duration: 30 * time.Second}})
	w.inject(t, simulated.Fault{What: simulated.FaultDevices, Resource: "nvidia.com/gpu.shared", Count: 4, Lag: metav1.Duration{Duration: time.Minute}})
	w.inject(t, simulated.Fault{What: simulated.FaultDevices, Resource: "cpu.example.com/part", Factor: 2})
	w.launch(t, w.newClaim(t, "a", nil, nil))
	shows := func() string {
		list := w.node(t, "a").Status.Allocatable
		whole, shared := list["nvidia.com/gpu"], list["nvidia.com/gpu.shared"]
		return whole.String() + " " + shared.String()
	}
	w.pass(t, 10*time.Second)
	w.tick(t)
	if got := shows(); got != "0 0" {
		t.Errorf("before the plugin: %s", got)
	}
	w.pass(t, 30*time.Second)
	w.tick(t)
	if got := shows(); got != "0 2" {
		t.Errorf("with a part of the plugin: %s", got)
	}
	w.pass(t, 30*time.Second)
	w.tick(t)
	if got := shows(); got != "0 4" {
		t.Errorf("with the plugin: %s", got)
	}
}
