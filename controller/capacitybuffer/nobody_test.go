package capacitybuffer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/common/expfmt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/capacitybuffer"
	"tenon.sh/controller/disrupt"
	"tenon.sh/controller/provision"
	"tenon.sh/journal"
	"tenon.sh/report"
)

// standIn is what the names of pods that stand for room begin with.
const standIn = "capacity-buffer-"

// overheard is a cluster, and what is said and asked in it of pods that do not exist.
type overheard struct {
	*clustertest.World
	provisioner *provision.Reconciler
	disruptor   *disrupt.Reconciler
	pods        *report.PodObserver
	journal     *journal.Journal
	said        []string
	metrics     []string // after each pass
}

func newOverheard(t *testing.T, objects ...client.Object) *overheard {
	t.Helper()
	w := &overheard{}
	note := func(what string, o client.Object) {
		if strings.HasPrefix(o.GetName(), standIn) {
			w.said = append(w.said, what+" "+o.GetName())
		}
	}
	w.World = clustertest.New(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			note("get", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: key.Name}})
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("patch", o)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch "+sub+" of", o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			note("create "+sub+" of", o)
			return c.SubResource(sub).Create(ctx, o, body, opts...)
		},
	}, objects...)
	w.Context = log.IntoContext(w.Context, funcr.New(func(_, line string) {
		if strings.Contains(line, standIn) {
			w.said = append(w.said, "log: "+line)
		}
	}, funcr.Options{Verbosity: 9}))
	config := w.Cluster.Config
	config.Buffers = true
	w.Cluster = cluster.New(config)
	w.pods, w.journal = report.NewPodObserver(w.Registry, w.Clock), journal.New(w.Clock)
	w.Registry.MustRegister(report.NewStateCollector(w.Cluster.Snapshot))
	w.provisioner = provision.New(provision.Config{
		Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics, Pods: w.pods, Begun: w.journal.Planned,
		Buffers: &capacitybuffer.Writer{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics},
	})
	w.disruptor = disrupt.New(disrupt.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics, Begun: w.journal.Passed})
	return w
}

// check fails the test where anything is said of pods that do not exist: in calls, logs, metrics, events or objects.
func (w *overheard) check() {
	w.Helper()
	w.Recorder.Flush(w)
	for _, list := range []client.ObjectList{&corev1.EventList{}, &v1.NodeClaimList{}, &v1.NodePoolList{}, &corev1.NodeList{}, &corev1.PodList{}} {
		w.Must(w.Client.List(w, list))
		if text, err := json.Marshal(list); err != nil || strings.Contains(string(text), standIn) || strings.Contains(string(text), v1.BufferPodAnnotationKey) {
			w.Errorf("%T says it: %s (%v)", list, text, err)
		}
	}
	if text, err := json.Marshal(w.records()); err != nil || strings.Contains(string(text), standIn) {
		w.Errorf("the journal says it: %s (%v)", text, err)
	}
	if text := w.exposition(nil); strings.Contains(text, standIn) {
		w.Errorf("metrics say it: %s", text)
	}
	if len(w.said) > 0 {
		w.Errorf("said: %q", w.said)
	}
}

// records are what the journal keeps.
func (w *overheard) records() []journal.Record { return w.journal.Document(journal.Filter{}).Records }

// exposition is what a scrape gets, but for some families.
func (w *overheard) exposition(without map[string]bool) string {
	w.Helper()
	families, err := w.Registry.Gather()
	w.Must(err)
	var out bytes.Buffer
	for _, f := range families {
		if !without[f.GetName()] {
			_, err := expfmt.MetricFamilyToText(&out, f)
			w.Must(err)
		}
	}
	return out.String()
}

// told are the events of pods and of what makes pods, where pods are pointed at, and the records that are about pods.
func (w *overheard) told() []string {
	w.Helper()
	w.Recorder.Flush(w)
	var events corev1.EventList
	w.Must(w.Client.List(w, &events))
	var out []string
	for _, e := range events.Items {
		if kind := e.InvolvedObject.Kind; kind == "Pod" || kind == "Deployment" {
			out = append(out, fmt.Sprintf("%s %s %s x%d: %.40s", kind, e.InvolvedObject.Name, e.Reason, e.Count, e.Message)) // the rest may be about the machine, which has room too
		}
	}
	var pods corev1.PodList
	w.Must(w.Client.List(w, &pods))
	for _, p := range pods.Items {
		out = append(out, fmt.Sprintf("pod %s is nominated to %q", p.Name, p.Status.NominatedNodeName))
	}
	for _, r := range w.records() {
		if r.Pods > 0 {
			out = append(out, fmt.Sprintf("%s %s of %d pods: %q", r.Kind, r.Reason, r.Pods, r.PodNames))
		}
	}
	slices.Sort(out)
	return out
}

// Room is no pod to anybody who looks at pods: beside pods that wait, that have a place and that have none, a buffer whose room is
// partly there, partly bought and partly without a place changes no metric of pods, no event, no nomination and no record.
func TestRoomIsInNoMetricEventOrRecordOfPods(t *testing.T) {
	t.Parallel()
	// All but what machines are bought for the room and what they cost.
	without := map[string]bool{"tenon_capacity_buffer_cost_dollars_per_hour": true, "tenon_plan_cost_dollars_per_hour": true, "karpenter_nodeclaims_created_total": true}
	look := func(buffers ...client.Object) *overheard {
		pool := clustertest.Pool("general")
		claim, node := clustertest.Machine(pool, "m", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
		pods := []client.Object{clustertest.Bound("runs", "1", "m"), clustertest.Pending("fits", "1"), clustertest.Pending("waits", "3500m"), clustertest.Pending("lost", "5000")}
		w := newOverheard(t, append(append(pods, pool, claim, node), buffers...)...)
		for _, p := range pods {
			w.pods.Handler().OnAdd(p, true)
		}
		for range 3 {
			w.Must(w.provisioner.Reconcile(w))
			w.metrics = append(w.metrics, w.exposition(without))
			w.Clock.Step(time.Second)
		}
		w.check()
		return w
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(6)), Template: templateOf("1").Template}}
	some := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "some", UID: "some"}}
	some.Spec.ScalableRef, some.Spec.Percentage = &autoscalingv1beta1.ScalableRef{Kind: "Deployment", Name: "web"}, new(int32(100))
	plain, with := look(d), look(d.DeepCopy(), some, bufferOf("shape", 2), templateOf("5000"))
	if strings.Join(plain.told(), "\n") != strings.Join(with.told(), "\n") {
		t.Errorf("told without buffers:\n%s\nwith:\n%s", strings.Join(plain.told(), "\n"), strings.Join(with.told(), "\n"))
	}
	if told := with.told(); !slices.Contains(told, `pod fits is nominated to "m"`) || with.Events()["Pod FailedScheduling"] == 0 {
		t.Errorf("the world is not what it should be: %q", told)
	}
	var b autoscalingv1beta1.CapacityBuffer
	with.Must(with.Client.Get(with, client.ObjectKeyFromObject(some), &b))
	if c := apimeta.FindStatusCondition(b.Status.Conditions, "Provisioning"); c == nil || !strings.Contains(c.Message, "of 6 pods, nodes have room for 2, machines that start for 4, and 0 have no place") {
		t.Errorf("the room is %+v", c)
	}
	if a, b := plain.metrics, with.metrics; !slices.Equal(a, b) {
		t.Errorf("metrics after each pass without buffers:\n%s\nwith:\n%s", a, b)
	}
}

// Room that moves to a cheaper machine, with a pod, is no pod that moves.
func TestRoomThatMovesIsInNoMetricEventOrRecordOfPods(t *testing.T) {
	t.Parallel()
	pool := clustertest.Pool("general")
	pool.Spec.Disruption.ConsolidationPolicy = v1.WhenEmptyOrUnderutilized
	claim, node := clustertest.Machine(pool, "a", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	w := newOverheard(t, pool, bufferOf("shape", 3), templateOf("1"), claim, node, clustertest.Bound("runs", "500m", "a"))
	w.Must(w.provisioner.Reconcile(w))
	w.Must(w.disruptor.Reconcile(w))
	if told, want := w.told(), `Disruption Underutilized of 1 pods: ["default/runs"]`; !slices.Contains(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for _, c := range w.Claims() {
		cpu := c.Spec.Resources.Requests[corev1.ResourceCPU]
		if pods := c.Annotations[v1.PlannedPodsAnnotationKey]; c.Name != "a" && (cpu.MilliValue() != 3500 || pods != "pod-runs") {
			t.Errorf("the replacement has room for %s cpu, for the pods %q", cpu.String(), pods)
		}
	}
	w.check()
}
