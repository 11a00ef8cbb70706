package disrupt_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
)

// announced keeps the lines of the world's log that say that nodes are disrupted.
func announced(w *clustertest.World) *[]string {
	var lines []string
	w.Context = log.IntoContext(w.Context, funcr.New(func(_, line string) {
		if strings.Contains(line, "disrupting node(s)") {
			lines = append(lines, line)
		}
	}, funcr.Options{}))
	return &lines
}

func TestADisruptionIsLoggedOnceItHasBegun(t *testing.T) {
	t.Parallel()
	t.Run("deletion", func(t *testing.T) {
		t.Parallel()
		pool := clustertest.Pool("general")
		claim, node := clustertest.Machine(pool, "general-a", old)
		busy, other := clustertest.Machine(pool, "general-b", old)
		w := clustertest.New(t, interceptor.Funcs{List: unseenPods}, pool, claim, node, busy, other, clustertest.Bound("web", "1", "general-b"))
		lines := announced(w)
		snap, err := w.Cluster.Snapshot(w)
		w.Must(err)
		both := []string{"general-a", "general-b"}
		w.Must(newReconciler(w).CarryOut(w, snap, &engine.Plan{Disruptions: []engine.Disruption{{Reason: v1.Empty, Nodes: both, Claims: both}}}))
		if len(*lines) != 1 || !strings.Contains((*lines)[0], "general-a") || strings.Contains((*lines)[0], "general-b") || !strings.Contains((*lines)[0], `"kept"=1`) {
			t.Errorf("one node goes, the other is kept by its pod; the log says %q", *lines)
		}
	})
	t.Run("replacement", func(t *testing.T) {
		t.Parallel()
		w := newOrderWorld(t)
		lines := announced(w.World)
		w.Must(w.begin())
		if len(*lines) != 1 || !strings.Contains((*lines)[0], "general-a") {
			t.Errorf("it has begun; the log says %q", *lines)
		}
	})
	t.Run("taken back", func(t *testing.T) {
		t.Parallel()
		w := newOrderWorld(t)
		w.outside = true
		w.pool.Spec.Limits = v1.Limits{v1.ResourceNodes: *resourceOf("2")}
		w.Must(w.Client.Update(w, w.pool))
		w.outside = false
		lines := announced(w.World)
		w.Must(w.begin())
		if len(*lines) > 0 {
			t.Errorf("both nodes stay; the log says %q", *lines)
		}
	})
}
