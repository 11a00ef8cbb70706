package report_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/report"
)

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: kind}
}

func TestAPoolThatCannotBeUsedFromTheBeginningIsTold(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	observer := report.NewStatusObserver(prometheus.NewRegistry(), w.Recorder, w.Clock, "nodepool")
	handler := observer.Handler("nodepool", true)
	before := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "uid"}}
	after := before.DeepCopy()
	after.Status.Conditions = []metav1.Condition{
		condition(v1.ConditionValidationSucceeded, metav1.ConditionTrue),
		condition(v1.ConditionNodeClassReady, metav1.ConditionFalse),
		condition(v1.ConditionReady, metav1.ConditionFalse),
	}
	handler.OnUpdate(before, after)
	handler.OnUpdate(after, after)
	events := w.Events()
	for reason, want := range map[string]int{"NodeClassReady": 1, "Ready": 1, "ValidationSucceeded": 0} {
		if got := events["NodePool "+reason]; got != want {
			t.Errorf("%d events %s, want %d; all: %v", got, reason, want, events)
		}
	}
}

func TestTheEndOfAClaimIsTold(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{})
	observer := report.NewStatusObserver(prometheus.NewRegistry(), w.Recorder, w.Clock, "nodeclaim")
	deleted := metav1.NewTime(w.Clock.Now())
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-a", UID: "uid", DeletionTimestamp: &deleted}}
	observer.Handler("nodeclaim", true).OnDelete(claim)
	if got := w.Events()["NodeClaim "+report.Finalized]; got != 1 {
		t.Errorf("told %d times, want once", got)
	}
}
