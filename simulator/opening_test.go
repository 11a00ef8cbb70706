package simulator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// A pod that came while a machine was booting, for which there was room there as well, and that its node does not take after all, is
// planned for anew within a minute and a half of that, and not only once plans are made again because nothing else has happened.
func TestAPodThatANewNodeDoesNotTakeAfterAllSoonGetsAnotherMachine(t *testing.T) {
	t.Parallel()
	t.Run("with nominations", func(t *testing.T) { t.Parallel(); getsAnotherMachine(t, engine.Options{}) })
	t.Run("without", func(t *testing.T) { t.Parallel(); getsAnotherMachine(t, engine.Options{NoNominations: true}) })
}

func getsAnotherMachine(t *testing.T, opt engine.Options) {
	t.Helper()
	file, err := scenario.Parse(`now 2026-03-02T00:00:45Z
catalog kwok
cloud aws-typical
pool general capacity in (on-demand)
deployment web x1 cpu=500m mem=500Mi tolerate=somebodys
cronjob late x1 schedule="1 0 * * *" runs=1h cpu=100m mem=100Mi
`)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Options: opt, Seed: 1, For: time.Hour, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, most time.Duration, done func() bool) {
		t.Helper()
		for began := w.agenda.now; !done(); goOn(t, w, time.Second) {
			if w.agenda.now.Sub(began) >= most {
				t.Fatalf("%s: not after %v", what, most)
			}
		}
	}
	until("the machine's node has registered", 2*time.Minute, func() bool { return len(w.cluster.seatList) == 1 })
	s := w.cluster.seatList[0]
	node := s.node.DeepCopy()
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "somebodys", Effect: corev1.TaintEffectNoSchedule})
	w.nodes.set(s, node)
	until("the node is open", time.Minute, func() bool { return isOpen(s.node) && isNodeReady(s.node) })
	if len(s.units) != 1 || len(w.cluster.unbound.list) != 1 || w.meter.Launched != 1 {
		t.Fatalf("%d pods run, %d wait, %d machines were started when the node has opened: want one of each", len(s.units), len(w.cluster.unbound.list), w.meter.Launched)
	}
	// A taint that the pool does not declare may be an agent's, which goes within a minute.
	until("another machine is started", 90*time.Second, func() bool { return w.meter.Launched == 2 })
}
