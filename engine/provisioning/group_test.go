package provisioning

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// A group of many machines becomes groups that have launches each. Nothing is lost, and nothing is there twice.
func TestAGroupOfManyMachinesIsCut(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ machines, launches, want int }{{0, 0, 1}, {1, 1, 1}, {16, 20, 1}, {17, 1, 1}, {17, 17, 2}, {300, 5, 5}, {300, 400, 19}, {40, 3, 2}} {
		var g Group
		for i := range x.machines {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}}
			g.Machines = append(g.Machines, &inventory.Machine{MachineInfo: &inventory.MachineInfo{}, Bound: []*corev1.Pod{pod}})
			g.Pods = append(g.Pods, kube.PodID(pod))
		}
		for i := range x.launches {
			l := engine.Launch{Name: fmt.Sprint(i)}
			for n := i * x.machines / x.launches; n < max(i+1, (i+1)*x.machines/x.launches) && n < x.machines; n++ {
				l.Pods = append(l.Pods, g.Pods[n])
				g.Moves = append(g.Moves, engine.Placement{Pod: g.Pods[n], Node: l.Name})
			}
			g.Launches = append(g.Launches, l)
		}
		parts := g.Cut()
		machines, launches, pods, moves := map[*inventory.Machine]bool{}, map[string]bool{}, 0, 0
		for _, part := range parts {
			if len(parts) > 1 && (len(part.Machines) == 0 || len(part.Launches) == 0) {
				t.Errorf("%+v: a part of %d machines and %d launches", x, len(part.Machines), len(part.Launches))
			}
			for _, m := range part.Machines {
				machines[m] = true
			}
			for _, l := range part.Launches {
				launches[l.Name] = true
			}
			pods, moves = pods+len(part.Pods), moves+len(part.Moves)
		}
		if len(parts) != x.want || len(machines) != x.machines || len(launches) != x.launches || pods != len(g.Pods) || moves != len(g.Moves) {
			t.Errorf("%+v: %d parts with %d machines, %d launches, %d pods and %d moves", x, len(parts), len(machines), len(launches), pods, moves)
		}
	}
}
