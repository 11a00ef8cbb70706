package simulator

import (
	"testing"
	"time"

	"tenon.sh/engine/kube"
)

// A pod of a Job that is sent away while a later run of its CronJob is under way comes again in its own Job, under a name of its own.
func TestAPodOfAJobComesAgainInItsJob(t *testing.T) {
	t.Parallel()
	w := runningFor(t, 11*time.Minute, "now 2026-03-02T00:00:00Z\ncloud fixed30\npool general\ntype four cpu=4 mem=8Gi zones=a price=0.2\n"+
		"cronjob late x2 schedule=\"*/5 * * * *\" runs=2h cpu=100m mem=100Mi\n")
	first := w.cluster.units.list[0]
	w.pods.end(first, first.grace())
	goOn(t, w, time.Minute)
	inJob, names := 0, map[string]bool{}
	for _, u := range w.cluster.units.list {
		if kube.WorkloadOf(u.pod) == kube.WorkloadOf(first.pod) {
			inJob++
		}
		names[u.pod.Name] = true
	}
	if inJob != 2 || len(w.cluster.units.list) != 4 || len(names) != 4 {
		t.Errorf("%d pods of the first Job, want 2; %d of both, want 4; %d names", inJob, len(w.cluster.units.list), len(names))
	}
}
