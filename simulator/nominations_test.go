package simulator

import (
	"slices"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// Kubernetes means status.nominatedNodeName to be kube-scheduler's alone. What is promised does not hang on it: every pod finds a
// place, no two machines are on their way for one pod, and budgets hold.
func TestWithoutNominationsNoPodIsPointedAnywhereAndAllPromisesHold(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := scenario.Parse(`now 2026-03-02T06:00:45Z
catalog kwok
cloud aws-typical
pool general capacity in (on-demand) consolidate-after=1m limits=cpu:130
deployment web x40 cpu=500m mem=800Mi day=6:40,8:120,10:60,12:150 rollout="30 9 * * *"
deployment spread x9 cpu=1 mem=1Gi spread=(zone soft) apart=(hostname)
deployment strict x12 cpu=300m mem=300Mi spread=zone
cronjob late x10 schedule="*/20 * * * *" runs=10m cpu=1 mem=1Gi
`)
			if err != nil {
				t.Fatal(err)
			}
			opt := engine.Options{Effort: UsualEffort, NoNominations: off}
			w, err := New(Config{Snapshot: file.Snapshot, Course: file.Course, Options: opt, Seed: 3, For: 8 * time.Hour, Audit: true})
			if err != nil {
				t.Fatal(err)
			}
			nominated, held := 0, 0 // nodes are held closed until their pods are nominated
			for began := w.agenda.now; w.agenda.now.Sub(began) < 7*time.Hour; goOn(t, w, 5*time.Second) {
				for _, u := range w.cluster.unbound.list {
					if u.pod.Status.NominatedNodeName != "" {
						nominated++
					}
				}
				for _, s := range w.cluster.seatList {
					if slices.Contains(s.node.Spec.Taints, kube.OpeningTaint()) {
						held++
					}
				}
				lookForPodsPlannedTwice(t, w)
				lookAtLimit(t, w, 130)
			}
			if off && nominated > 0 || (held > 0) == off {
				t.Errorf("pods were seen nominated %d times, and nodes held closed %d times", nominated, held)
			}
			if end := w.atEnd(t.Context()); end.Idle > 0 || end.Leaked > 0 || end.Machines == 0 {
				t.Errorf("at the end %+v", end)
			}
		})
	}
}

func lookForPodsPlannedTwice(t *testing.T, w *World) {
	t.Helper()
	planned := map[string]string{}
	for _, c := range w.cluster.claims.list {
		if c.DeletionTimestamp != nil || v1.IsTrue(c, v1.ConditionInitialized) || w.agenda.now.Sub(c.CreationTimestamp.Time) > 3*time.Minute {
			continue // it is late: another is started for its pods
		}
		for _, uid := range kube.PlannedPods(c) {
			if other := planned[uid]; other != "" {
				t.Fatalf("%s and %s are both on their way for pod %s", other, c.Name, uid)
			}
			planned[uid] = c.Name
		}
	}
}

func lookAtLimit(t *testing.T, w *World, cores int64) {
	t.Helper()
	sum := int64(0)
	for _, c := range w.cluster.claims.list {
		sum += c.Status.Capacity.Cpu().Value()
	}
	if sum > cores {
		t.Fatalf("the pool has %d cores, its limit is %d", sum, cores)
	}
}
