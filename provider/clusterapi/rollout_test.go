package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/contract"
)

// newSet makes a MachineSet of MachineDeployment small-a with an age in hours.
func (w *world) newSet(t *testing.T, name string, hours, replicas int32) *contract.MachineSet {
	t.Helper()
	set := &contract.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{contract.DeploymentNameLabel: "small-a"},
		CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Duration(hours) * time.Hour)),
	}}
	set.Spec.Replicas = ptr.To(replicas)
	w.create(t, w.management, set)
	return set
}

// belongs sets the MachineSet of a Machine.
func (w *world) belongs(t *testing.T, m engine.Machine, set string) {
	t.Helper()
	machine := w.machine(t, m)
	machine.Labels[contract.SetNameLabel] = set
	if err := w.management.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
}

func (w *world) machine(t *testing.T, m engine.Machine) *contract.Machine {
	t.Helper()
	machine := &contract.Machine{}
	if err := w.management.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: nameOf(m)}, machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

func nameOf(m engine.Machine) string { return strings.TrimPrefix(string(m.ID), "fake://") }

// Cluster API itself chooses the MachineSets from which it removes replicas. It regards marks only within a MachineSet.
func TestWhileThereAreSeveralMachineSetsTheMachineOfTheClaimGoesAndNoOther(t *testing.T) {
	t.Parallel()
	onDelete := func(d *contract.MachineDeployment) {
		d.Spec.Rollout = &contract.Rollout{Strategy: contract.Strategy{Type: "OnDelete"}}
	}
	rolling := func(*contract.MachineDeployment) {}
	for name, c := range map[string]struct {
		strategy func(*contract.MachineDeployment)
		goes     int // index of the removed one of three: the first two are in the old MachineSet
		surge    bool
		replicas int32 // afterwards
		stays    bool  // until the rollout is over
	}{
		"OnDelete, from the oldest":         {onDelete, 1, false, 2, false},
		"OnDelete, from the newest":         {onDelete, 2, false, 3, false},
		"a rollout, from the largest":       {rolling, 1, false, 3, false},
		"a rollout, from the smallest":      {rolling, 2, false, 3, false},
		"a rollout that has one in advance": {rolling, 2, true, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("small-a", "small", "a", "0.10", c.strategy))
			w.grace = time.Hour
			w.restart(t)
			var machines []engine.Machine
			for i := range 3 {
				machines = append(machines, w.launch(t, w.newClaim(t, fmt.Sprint("c", i), nil, nil)))
			}
			old, newest := w.newSet(t, "old", 2, 2), w.newSet(t, "newest", 1, 1)
			for i, m := range machines {
				w.belongs(t, m, []string{old.Name, old.Name, newest.Name}[i])
			}
			if c.surge {
				advance := &contract.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "small-a-advance", Labels: map[string]string{
					contract.DeploymentNameLabel: "small-a", contract.SetNameLabel: newest.Name,
				}}}
				w.create(t, w.management, advance)
			}
			w.terminate(t, machines[c.goes])
			w.terminate(t, machines[c.goes])
			w.wantReplicas(t, "small-a", c.replicas)
			for i, m := range machines {
				gone := w.machine(t, m).DeletionTimestamp != nil
				if want := i == c.goes && !c.stays; gone != want {
					t.Errorf("machine %d goes: %v, want %v", i, gone, want)
				}
			}
			if !c.stays {
				return
			}
			old.Spec.Replicas = ptr.To[int32](0)
			if err := w.management.Update(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			w.settle(t)
			w.terminate(t, machines[c.goes])
			w.settle(t)
			w.wantMachines(t, nameOf(machines[0]), nameOf(machines[1]), "small-a-advance")
		})
	}
}

func TestAMachineOfNobodyStaysWhereAnotherWouldComeForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10", func(d *contract.MachineDeployment) {
		d.Spec.Rollout = &contract.Rollout{Strategy: contract.Strategy{Type: "OnDelete"}}
	}))
	w.markReady(t)
	old, newest := w.launch(t, w.newClaim(t, "old", nil, nil)), w.launch(t, w.newClaim(t, "newest", nil, nil))
	set := w.newSet(t, "old", 2, 1)
	w.newSet(t, "newest", 1, 1)
	w.belongs(t, old, "old")
	w.belongs(t, newest, "newest")
	w.terminate(t, newest) // another, unwanted one comes in its MachineSet
	for range 5 {
		w.settle(t)
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if w.made != 3 {
		t.Errorf("%d Machines were made, want 3: none comes and goes", w.made)
	}
	w.wantReplicas(t, "small-a", 2)
	w.terminate(t, old)
	set.Spec.Replicas = ptr.To[int32](0)
	if err := w.management.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.settle(t)
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.wantMachines(t)
}

func TestAMachineDeploymentThatPreflightChecksHoldBackIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	const says = "Scaling up from 0 to 1 replicas is blocked because: * Control plane is upgrading"
	for name, set := range map[string]contract.MachineSetStatus{
		"v1beta2": {Conditions: contract.Conditions{{Type: "ScalingUp", Status: "True", Reason: "ScalingUp", Message: says}}},
		"v1beta1": {Conditions: contract.Conditions{{Type: "MachinesCreated", Status: "False", Reason: "PreflightCheckFailed", Message: says}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("small-a", "small", "a", "0.10"), deployment("small-b", "small", "b", "0.12"))
			fake := testclock.NewFakeClock(time.Now())
			w.clock, w.wait, w.makesNone = fake, -1, true
			w.restart(t)
			w.markReady(t)
			held := w.newSet(t, "held", 1, 0)
			held.Status = set
			if err := w.management.Update(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			first := w.newClaim(t, "first", nil, nil)
			launch := func(claim *v1.NodeClaim) error { return w.launchNoted(t, claim) }
			waits := func(claim *v1.NodeClaim, from string) {
				t.Helper()
				if err := launch(claim); !errors.As(err, new(*provider.PendingError)) || claim.Annotations[v1.MachineDeploymentAnnotationKey] != from {
					t.Errorf("launch: %v, asked %v, want the claim to wait for %s", err, claim.Annotations, from)
				}
			}
			waits(first, "default/small-a")
			fake.Step(59 * time.Second)
			waits(first, "default/small-a")
			fake.Step(time.Second)
			waits(first, "default/small-b") // the next one is asked
			if err := w.provider.Clean(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.wantReplicas(t, "small-a", 0)
			w.wantReplicas(t, "small-b", 1)
			if _, message := w.says(t); !strings.Contains(message, "default/small-a makes no machines now: "+says) {
				t.Errorf("the class says %q", message)
			}
			fake.Step(119 * time.Second)
			waits(w.newClaim(t, "second", nil, nil), "default/small-b")
			w.wantReplicas(t, "small-a", 0)
			fake.Step(time.Second)
			waits(w.newClaim(t, "third", nil, nil), "default/small-a")
			w.wantReplicas(t, "small-a", 1)
		})
	}
}

// A rollout makes one Machine more before it deletes one. This Machine needs no more replicas, and stays until pods move to it.
func TestMachinesOfARolloutStayAndAskForNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.launch(t, w.newClaim(t, "b", nil, nil))
	w.newSet(t, "old", 2, 2)
	w.newSet(t, "new", 1, 2)
	surge := w.machines(t)[0]
	surge.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "surge", Labels: surge.Labels}
	surge.Spec.ProviderID = "fake://surge"
	w.create(t, w.management, &surge)
	if err := w.provider.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantReplicas(t, "small-a", 2)
	w.wantMachines(t, "small-a-001", "small-a-002", "surge")

	traits, err := w.provider.Traits(t.Context(), w.classRef())
	if err != nil || !slices.Equal(traits[0].Replacing, []string{"default/small-a"}) {
		t.Errorf("traits %+v, %v: want those of default/small-a to be called those that are being replaced", traits, err)
	}
	w.launch(t, w.newClaim(t, "c", nil, nil))
	w.wantReplicas(t, "small-a", 3)
	w.wantMachines(t, "small-a-001", "small-a-002", "surge")
}

func TestAnAdoptedMachineIsThatOfItsClaimAndOfNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
	w.settle(t)
	adoptable := func() []engine.Machine {
		t.Helper()
		out, err := w.provider.Adoptable(t.Context(), w.classRef())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	found := adoptable()
	if len(found) != 3 {
		t.Fatalf("%d can be adopted, want 3: %+v", len(found), found)
	}
	adopting := func(name string, m engine.Machine) *v1.NodeClaim {
		claim := w.newClaim(t, name, []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{m.Labels[corev1.LabelInstanceTypeStable]}}}, nil)
		before := client.MergeFrom(claim.DeepCopy())
		claim.Annotations = m.Annotations
		if err := w.workload.Patch(t.Context(), claim, before); err != nil {
			t.Fatal(err)
		}
		return claim
	}
	last := found[2]
	claim := adopting("adopts", last)
	if left := adoptable(); len(left) != 2 {
		t.Errorf("%d can be adopted beside the one that has its claim, want 2", len(left))
	}
	if got := w.launch(t, claim); got.ID != last.ID {
		t.Errorf("the claim got %s, want %s", got.ID, last.ID)
	}
	w.wantReplicas(t, "small-a", 3)

	waits := w.newClaim(t, "waits", nil, nil)
	before := client.MergeFrom(waits.DeepCopy())
	waits.Annotations = map[string]string{v1.MachineDeploymentAnnotationKey: "default/small-a"}
	if err := w.workload.Patch(t.Context(), waits, before); err != nil {
		t.Fatal(err)
	}
	if left := adoptable(); len(left) != 1 {
		t.Errorf("%d can be adopted beside the one that a claim waits for, want 1", len(left))
	}
}
