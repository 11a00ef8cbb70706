package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
	"tenon.sh/journal"
)

// A consolidation is in the journal, and on the page that shows it, from its cause to what it has saved so far.
func TestTheJournalFollowsAConsolidation(t *testing.T) {
	world := newWorld(t)
	kept := t.TempDir()
	world.start("--journal=" + kept)
	world.allowSnapshots()
	w := world.in(t, "saved")
	w.cornerPool(func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(5 * time.Second) })
	w.workload(4, "1900m", nil)
	if nodes := len(w.nodes()); nodes != 2 {
		w.Fatalf("%d nodes for 4 pods of which two fit each", nodes)
	}
	w.leaveEvenly(2, w.corner)
	w.scale(w.corner, 2)

	told := ""
	var done journal.Record
	w.until(3*time.Minute, func() (bool, string) {
		records := w.decided()
		i := slices.IndexFunc(records, func(r journal.Record) bool { return r.Kind == journal.Disruption })
		if i < 0 {
			return false, fmt.Sprintf("no consolidation is in the journal: %+v", records)
		}
		done = records[i]
		if state := fmt.Sprint(done.Outcome, len(done.Steps)); state != told {
			told = state
			w.Log(w.tenon("journal", done.ID, "-f", kept))
		}
		return done.Outcome == journal.Done, fmt.Sprintf("it has not ended: %+v", done)
	})
	if done.Reason != "Underutilized" || done.Pods != 1 || done.PriceBefore <= 0 || math.Abs(done.PriceBefore-done.PriceAfter-done.SavingPerHour) > 1e-9 {
		w.Errorf("the decision is %+v", done)
	}
	for i, step := range done.Steps {
		if step.Time.IsZero() || i > 0 && step.Time.Before(done.Steps[i-1].Time) {
			w.Errorf("%s was at %s", step.What, step.Time)
		}
	}
	if n := len(done.Steps); n == 0 || done.Steps[n-1].What != journal.Removed { // others are there if a look has fallen between
		w.Errorf("its steps are %+v", done.Steps)
	}
	w.until(time.Minute, func() (bool, string) {
		now := w.decided()
		i := slices.IndexFunc(now, func(r journal.Record) bool { return r.ID == done.ID })
		return i >= 0 && now[i].Saved > done.Saved && now[i].Saved > 0, fmt.Sprintf("what is saved does not grow from $%g", done.Saved)
	})
	file := filepath.Join(w.TempDir(), "page.html")
	w.until(time.Minute, func() (bool, string) { // the controller may have been asked too often
		says := w.tenon("dashboard", "--kubeconfig", w.playground.Kubeconfig(), "--export", file)
		page, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(page), done.Says), fmt.Sprintf("the page does not show %q: %v %s", done.Says, err, says)
	})
}

// allowSnapshots makes the account that the chart makes with snapshotAccount.create.
func (w *world) allowSnapshots() {
	w.Helper()
	meta, account := metav1.ObjectMeta{Name: "tenon-snapshot"}, metav1.ObjectMeta{Name: "tenon-snapshot", Namespace: deploy.Namespace}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/journal", "/snapshot/catalog"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}},
	} {
		w.must(w.Create(w, o))
		w.Cleanup(func() { w.must(w.Delete(context.Background(), o)) })
	}
}

// decided are the decisions about the corner, as tenon journal reads them from the controller; nil if it is asked too often.
func (w *world) decided() []journal.Record {
	w.Helper()
	out := w.tenon("journal", "--kubeconfig", w.playground.Kubeconfig(), "--pool", w.corner, "-o", "json")
	if strings.Contains(out, "429 Too Many Requests") {
		return nil
	}
	var d journal.Document
	if err := json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &d); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return d.Records
}
