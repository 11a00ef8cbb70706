package clusterapi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/contract"
)

func (w *world) wantReplicas(t *testing.T, name string, want int32) {
	t.Helper()
	if got := w.deployment(t, name).Spec.Replicas; got == nil || *got != want {
		t.Errorf("MachineDeployment %s has %v replicas, want %d", name, ptr.Deref(got, -1), want)
	}
}

// wantMachines checks the names of the Machines that are not being deleted.
func (w *world) wantMachines(t *testing.T, want ...string) {
	t.Helper()
	got := []string{}
	for _, m := range w.machines(t) {
		if m.DeletionTimestamp == nil {
			got = append(got, m.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(append([]string{}, want...)) {
		t.Errorf("Machines %v, want %v", got, want)
	}
}

func (w *world) terminate(t *testing.T, m engine.Machine) {
	t.Helper()
	if err := w.provider.Terminate(t.Context(), m.ID); err != nil && !errors.Is(err, provider.ErrGone) {
		t.Fatal(err)
	}
}

func TestFiftyClaimsOfOneMomentAreFewWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	claims := []*v1.NodeClaim{}
	for i := range 50 {
		claims = append(claims, w.newClaim(t, fmt.Sprintf("c%d", i), nil, nil))
	}
	machines := make([]engine.Machine, len(claims))
	at := func(do func(i int)) {
		var group sync.WaitGroup
		for i := range claims {
			group.Go(func() { do(i) })
		}
		group.Wait()
	}
	at(func(i int) {
		var err error
		if machines[i], err = w.provider.Launch(t.Context(), claims[i], w.classRef()); err != nil {
			t.Errorf("launch: %v", err)
		}
	})
	w.wantReplicas(t, "small-a", 50)
	up := w.writes["small-a"]
	at(func(i int) {
		if err := w.provider.Terminate(t.Context(), machines[i].ID); err != nil {
			t.Errorf("terminate: %v", err)
		}
	})
	w.settle(t)
	w.wantReplicas(t, "small-a", 0)
	w.wantMachines(t)
	if down := w.writes["small-a"] - up; up > 3 || down > 3 {
		t.Errorf("replicas were written %d times up and %d times down, want at most 3 each", up, down)
	}
}

func TestTheMachineOfTheClaimGoesAndNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	first, second := w.launch(t, w.newClaim(t, "a", nil, nil)), w.launch(t, w.newClaim(t, "b", nil, nil))
	for range 3 { // the controllers ask until it is gone
		w.terminate(t, first)
	}
	w.wantReplicas(t, "small-a", 1)
	for _, m := range w.machines(t) {
		for _, key := range []string{contract.DeleteAnnotation, contract.ExcludeDrainAnnotation, contract.ExcludeVolumesAnnotation} {
			if goes := m.Spec.ProviderID == string(first.ID); goes != (m.Annotations[key] != "") {
				t.Errorf("Machine %s has annotation %s=%q", m.Name, key, m.Annotations[key])
			}
		}
	}
	w.settle(t)
	w.wantMachines(t, strings.TrimPrefix(string(second.ID), "fake://"))
}

func TestAMachineThatGoesDoesNotTakeThePlaceOfOneThatComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	first := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.change(t, "small-a", annotated(contract.PausedAnnotation, "")) // it is marked, but its replica is not removed yet
	w.terminate(t, first)
	w.change(t, "small-a", func(d *contract.MachineDeployment) { delete(d.Annotations, contract.PausedAnnotation) })
	next := w.newClaim(t, "b", nil, nil)
	for range 2 {
		if _, err := w.provider.Launch(t.Context(), next, w.classRef()); err != nil {
			if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) {
				t.Fatal(err)
			}
		}
		w.settle(t)
	}
	w.launch(t, next)
	w.wantReplicas(t, "small-a", 1)
	w.wantMachines(t, "small-a-002")
}

func TestAPausedMachineDeploymentLosesNothingWhenItGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	first, second := w.launch(t, w.newClaim(t, "a", nil, nil)), w.launch(t, w.newClaim(t, "b", nil, nil))
	w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Annotations[contract.PausedAnnotation] = "" })
	for range 3 {
		w.terminate(t, first)
	}
	w.wantReplicas(t, "small-a", 2)
	if m, err := w.provider.Machine(t.Context(), first.ID); err != nil || !m.Leaving {
		t.Errorf("a machine that was told to stop: %+v, %v", m, err)
	}
	_, err := w.provider.Launch(t.Context(), w.newClaim(t, "c", nil, nil), w.classRef())
	if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || !strings.Contains(err.Error(), "is paused") {
		t.Errorf("launch from a paused MachineDeployment: %v", err)
	}
	w.change(t, "small-a", func(d *contract.MachineDeployment) { delete(d.Annotations, contract.PausedAnnotation) })
	for range 3 {
		w.terminate(t, first)
		w.settle(t)
	}
	w.wantReplicas(t, "small-a", 1)
	w.wantMachines(t, strings.TrimPrefix(string(second.ID), "fake://"))
}

func TestALaunchThatIsCutShortIsTakenUp(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, w *world, claim *v1.NodeClaim){
		"after the word on the claim": func(*testing.T, *world, *v1.NodeClaim) {},
		"after the replicas": func(t *testing.T, w *world, _ *v1.NodeClaim) {
			w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](1) })
			w.settle(t)
		},
		"after the Machine was bound": func(t *testing.T, w *world, claim *v1.NodeClaim) { w.launch(t, claim) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
			claim := w.newClaim(t, "a", nil, nil)
			claim.Annotations = map[string]string{v1.MachineDeploymentAnnotationKey: "default/small-a"}
			if err := w.workload.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			cut(t, w, claim)
			w.restart(t)
			w.launch(t, claim)
			w.wantReplicas(t, "small-a", 1)
			w.wantMachines(t, "small-a-001")
		})
	}
}

func TestAnotherClaimThatWaitedBeforeARestartIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.change(t, "small-a", annotated(contract.PausedAnnotation, "")) // Cluster API makes none for now
	waits := w.newClaim(t, "waits", nil, nil)
	waits.Annotations = map[string]string{v1.MachineDeploymentAnnotationKey: "default/small-a"}
	if err := w.workload.Update(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	w.change(t, "small-a", func(d *contract.MachineDeployment) {
		delete(d.Annotations, contract.PausedAnnotation)
		d.Spec.Replicas = ptr.To[int32](1)
	})
	w.restart(t)
	w.launch(t, w.newClaim(t, "next", nil, nil))
	w.wantReplicas(t, "small-a", 2)
}

func TestAMachineWithoutAnIDIsPendingAndCanBeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.without = true
	claim := w.newClaim(t, "a", nil, nil)
	_, err := w.provider.Launch(t.Context(), claim, w.classRef())
	if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) || !strings.Contains(err.Error(), "default/small-a-001 is provisioning") {
		t.Fatalf("launch: %v", err)
	}
	machines, err := w.provider.Machines(t.Context())
	if err != nil || len(machines) != 1 || machines[0].ClaimUID != string(claim.UID) {
		t.Fatalf("machines %+v, %v", machines, err)
	}
	w.terminate(t, machines[0])
	w.settle(t)
	w.wantReplicas(t, "small-a", 0)
	w.wantMachines(t)
}

func TestAMachineThatFailsIsTakenAwayAndTheClaimHearsWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.failing = "quota exceeded"
	_, err := w.provider.Launch(t.Context(), w.newClaim(t, "a", nil, nil), w.classRef())
	if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || !strings.Contains(err.Error(), "quota exceeded") {
		t.Errorf("launch: %v", err)
	}
}

func TestAMachineOfNobodyIsTakenByTheNextClaimOrCollected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	first := w.launch(t, w.newClaim(t, "a", nil, nil))
	remediated := w.machines(t)[0]
	if err := w.management.Delete(t.Context(), &remediated); err != nil { // like a MachineHealthCheck
		t.Fatal(err)
	}
	w.settle(t)
	if _, err := w.provider.Machine(t.Context(), first.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("the remediated machine: %v", err)
	}
	w.wantMachines(t, "small-a-002")
	w.launch(t, w.newClaim(t, "b", nil, nil))
	w.wantMachines(t, "small-a-002")
	w.wantReplicas(t, "small-a", 1)

	w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
	w.settle(t)
	busy := w.machines(t)[1]
	busy.Status.NodeRef.Name = "busy"
	if err := w.management.Update(t.Context(), &busy); err != nil {
		t.Fatal(err)
	}
	w.create(t, w.workload, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{NodeName: "busy"}})
	for range 2 {
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
	}
	w.wantMachines(t, "small-a-002", busy.Name)
}

func TestWhatAMachineHealthCheckHasFoundBrokenIsForItToReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	for name, edit := range map[string]func(*contract.Machine){
		"found-broken": func(m *contract.Machine) {
			m.Status.Conditions = contract.Conditions{{Type: "HealthCheckSucceeded", Status: "False"}}
		},
		"found-well": func(m *contract.Machine) {
			m.Status.Conditions = contract.Conditions{{Type: "HealthCheckSucceeded", Status: "True"}}
		},
		"skipped":     func(m *contract.Machine) { m.Annotations[contract.SkipRemediation] = "" },
		"of-no-check": func(*contract.Machine) {},
	} {
		m := w.machine(t, w.launch(t, w.newClaim(t, name, nil, nil)))
		edit(m)
		if err := w.management.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	tended, err := w.provider.Tended(t.Context(), w.classRef())
	if err != nil || !slices.Equal(tended, []string{"found-broken", "skipped"}) {
		t.Errorf("%v are not repaired (%v), want found-broken and skipped", tended, err)
	}
}

func TestTheMachineThatReplacesARemediatedOneIsForTheNextClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	broken, healthy := w.launch(t, w.newClaim(t, "broken", nil, nil)), w.launch(t, w.newClaim(t, "healthy", nil, nil))
	judge := func(healthCheck string) *contract.Machine {
		t.Helper()
		m := w.machine(t, broken)
		m.Status.Conditions = contract.Conditions{{Type: "HealthCheckSucceeded", Status: healthCheck}, {Type: "OwnerRemediated", Status: "False"}}
		if err := w.management.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	judge("False")
	w.makesNone = true
	next := w.newClaim(t, "next", nil, nil)
	if err := w.launchNoted(t, next); !errors.As(err, new(*provider.PendingError)) {
		t.Fatalf("launch: %v", err)
	}
	w.wantReplicas(t, "small-a", 2)
	judge("True") // it recovered before anything was done
	if err := w.launchNoted(t, next); !errors.As(err, new(*provider.PendingError)) {
		t.Fatalf("launch: %v", err)
	}
	w.wantReplicas(t, "small-a", 3)
	if err := w.workload.Delete(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.makesNone = false
	for range 3 {
		w.settle(t)
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.wantReplicas(t, "small-a", 2)

	if err := w.management.Delete(t.Context(), judge("False")); err != nil { // now it is remediated
		t.Fatal(err)
	}
	w.terminate(t, broken) // its claim is repaired at the same time
	w.settle(t)
	w.launch(t, w.newClaim(t, "instead", nil, nil))
	w.wantReplicas(t, "small-a", 2)
	w.wantMachines(t, nameOf(healthy), fmt.Sprintf("small-a-%03d", w.made))
}

func TestAMachineWhoseMachineDeploymentIsGoneGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	if err := w.management.Delete(t.Context(), w.deployment(t, "small-a")); err != nil {
		t.Fatal(err)
	}
	w.terminate(t, m)
	w.settle(t)
	w.wantMachines(t)
	if list, err := w.provider.Machines(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("machines %+v, %v", list, err)
	}
}

func TestTheMachinesOfAnotherClusterAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	theirs := w.machines(t)[0]
	theirs.Annotations[v1.MachineClusterAnnotationKey] = "another-cluster"
	if err := w.management.Update(t.Context(), &theirs); err != nil {
		t.Fatal(err)
	}
	if list, err := w.provider.Machines(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("machines %+v, %v", list, err)
	}
	if err := w.provider.Terminate(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
		t.Errorf("terminate: %v", err)
	}
	if err := w.provider.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.wantMachines(t, theirs.Name)
}

func TestAMachineThatKarpenterBoundIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](1) })
	w.settle(t)
	claim := w.newClaim(t, "a", nil, nil)
	claim.Annotations = map[string]string{contract.KarpenterMachineAnnotation: "default/small-a-001"}
	if err := w.workload.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if list, err := w.provider.Machines(t.Context()); err != nil || len(list) != 1 || list[0].ClaimUID != string(claim.UID) {
		t.Errorf("machines %+v, %v", list, err)
	}
}

func TestAManagementClusterOutOfReachStopsLaunchesAndIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	m := w.launch(t, w.newClaim(t, "a", nil, nil))
	w.lost.Store(true)
	problem, err := w.provider.Resolve(t.Context(), w.classRef())
	if err != nil || !strings.Contains(problem, "ManagementClusterReady: list MachineDeployments: Get \"https://management\": connection refused") {
		t.Errorf("problem %q, error %v", problem, err)
	}
	if _, err := w.provider.Machine(t.Context(), m.ID); err == nil || errors.Is(err, provider.ErrGone) {
		t.Errorf("machine: %v, want an error that is no proof of its end", err)
	}
	if _, err := w.provider.Machines(t.Context()); err == nil {
		t.Error("a list of machines although nobody answers")
	}
	w.lost.Store(false)
	w.terminate(t, m)
	w.settle(t)
	w.wantMachines(t)
}

func TestALaunchOutlastsAManagementClusterThatIsOutOfReach(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world) *atomic.Bool{
		"it does not answer":        func(w *world) *atomic.Bool { return &w.lost },
		"the connection knows that": func(w *world) *atomic.Bool { return &w.starting },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, deployment("small-a", "small", "a", "0.10"), deployment("small-b", "small", "a", "0.12"))
				w.makesNone = true
				asked, fresh := w.newClaim(t, "asked", nil, nil), w.newClaim(t, "fresh", nil, nil)
				waits := func(when string) {
					t.Helper()
					err := w.launchNoted(t, asked)
					if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) || pending.RetryAfter <= 0 {
						t.Errorf("%s: %v, want the claim to wait", when, err)
					}
				}
				waits("while none is made")
				lose(w).Store(true)
				if restart {
					w.restart(t)
				}
				waits("out of reach")
				if _, err := w.provider.Launch(t.Context(), fresh, w.classRef()); err == nil || errors.As(err, new(*provider.PendingError)) {
					t.Errorf("launch of a claim that no MachineDeployment was asked for: %v", err)
				}
				lose(w).Store(false)
				w.makesNone = false
				w.settle(t)
				w.launch(t, asked)
				w.wantReplicas(t, "small-a", 1)
				w.wantReplicas(t, "small-b", 0)
				w.wantMachines(t, "small-a-001")
			})
		}
	}
}

// markReady marks the class as ready.
func (w *world) markReady(t *testing.T) {
	t.Helper()
	if problem, err := w.provider.Resolve(t.Context(), w.classRef()); problem != "" || err != nil {
		t.Fatalf("problem %q, error %v", problem, err)
	}
	if err := w.workload.Update(t.Context(), w.class); err != nil {
		t.Fatal(err)
	}
}
