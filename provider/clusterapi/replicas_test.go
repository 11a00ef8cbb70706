package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/contract"
)

// Cluster API has separate watches for Machines and replicas. It would keep a Machine whose mark it has not seen, and delete another.
func TestReplicasAreTakenAwayOnlyAfterCouldBeSeenWhichMachinesAreToGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	now := testclock.NewFakeClock(time.Now())
	first, second := w.launch(t, w.newClaim(t, "a", nil, nil)), w.launch(t, w.newClaim(t, "b", nil, nil))
	w.launch(t, w.newClaim(t, "c", nil, nil))
	w.clock, w.settled = now, 0 // as in production
	w.restart(t)
	w.terminate(t, first)
	w.wantReplicas(t, "small-a", 3)
	now.Step(3 * time.Second)
	w.terminate(t, second)
	w.wantReplicas(t, "small-a", 2)
	now.SetTime(now.Now().Add(-time.Hour)) // another process continues, whose clock is behind
	w.terminate(t, second)
	w.wantReplicas(t, "small-a", 1)
	w.settle(t)
	w.wantMachines(t, "small-a-003")
}

func TestTheLeastReplicasAreKeptAlsoIfNoClaimWantsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10", annotated(contract.MinSizeAnnotation, "2")))
	w.change(t, "small-a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
	w.settle(t)
	w.markReady(t)
	for range 3 {
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
	}
	w.wantReplicas(t, "small-a", 2)
	if n := w.made; n != 3 {
		t.Errorf("%d Machines were made, want 3: none comes and goes", n)
	}
}

func TestReplicasStayWithinTheSizesOfTheAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10", annotated(contract.MaxSizeAnnotation, "3"), annotated(contract.MinSizeAnnotation, "1")))
	claims := []*v1.NodeClaim{}
	for i := range 5 {
		claims = append(claims, w.newClaim(t, fmt.Sprintf("c%d", i), nil, nil))
	}
	var mu sync.Mutex
	var machines []engine.Machine
	full := 0
	var group sync.WaitGroup
	for _, claim := range claims {
		group.Go(func() {
			note := func(ctx context.Context, annotations map[string]string) error {
				noted := claim.DeepCopy()
				noted.Annotations = annotations
				return w.workload.Patch(ctx, noted, client.MergeFrom(claim))
			}
			m, err := w.provider.LaunchNoted(t.Context(), claim, w.classRef(), note)
			mu.Lock()
			defer mu.Unlock()
			if soldOut := (*provider.SoldOutError)(nil); errors.As(err, &soldOut) {
				full++
				err = w.workload.Delete(t.Context(), claim) // it is given up
			} else if err == nil {
				machines = append(machines, m)
				launched := claim.DeepCopy()
				launched.Status.ProviderID = string(m.ID)
				err = w.workload.Patch(t.Context(), launched, client.MergeFrom(claim))
			}
			if err != nil {
				t.Errorf("launch: %v", err)
			}
		})
	}
	group.Wait()
	w.wantReplicas(t, "small-a", 3)
	if full != 2 || len(machines) != 3 {
		t.Fatalf("%d claims found no room and %d got a machine, want 2 and 3", full, len(machines))
	}
	for _, m := range machines {
		w.terminate(t, m)
		w.settle(t)
	}
	w.wantReplicas(t, "small-a", 1)
	for _, m := range machines {
		if _, err := w.provider.Machine(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
			t.Errorf("machine %s: %v, want it gone", m.ID, err)
		}
	}
}

func TestClaimsOfAnEarlierProcessAreNoMoreThanTheMostReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10", annotated(contract.MaxSizeAnnotation, "3")))
	var claim *v1.NodeClaim
	for i := range 5 {
		claim = w.newClaim(t, fmt.Sprintf("c%d", i), nil, nil)
		before := client.MergeFrom(claim.DeepCopy())
		claim.Annotations = map[string]string{v1.MachineDeploymentAnnotationKey: "default/small-a"}
		if err := w.workload.Patch(t.Context(), claim, before); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.provider.Launch(t.Context(), claim, w.classRef()); !errors.As(err, new(*provider.SoldOutError)) {
		t.Errorf("launch: %v, want no room beside the four that have asked", err)
	}
	w.wantReplicas(t, "small-a", 3)
}

func TestReplicasAreNotTakenAwayWhileMachinesAreBeingMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.markReady(t)
	stays := w.launch(t, w.newClaim(t, "stays", nil, nil))
	w.makesNone = true
	given := w.newClaim(t, "given-up", nil, nil)
	_, err := w.provider.Launch(t.Context(), given, w.classRef())
	if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) {
		t.Fatalf("launch: %v", err)
	}
	if err := w.workload.Delete(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	if err := w.provider.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantReplicas(t, "small-a", 2) // its Machine may come any moment, and another would be deleted for it
	w.makesNone = false
	for range 3 {
		w.settle(t)
		if err := w.provider.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.wantReplicas(t, "small-a", 1)
	w.wantMachines(t, strings.TrimPrefix(string(stays.ID), "fake://"))
}

func TestReplicasAreCountedAnewIfSomebodyElseWroteThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("small-a", "small", "a", "0.10"))
	w.clashes = 2
	w.launch(t, w.newClaim(t, "a", nil, nil))
	w.wantReplicas(t, "small-a", 1)
}
