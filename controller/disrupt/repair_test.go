package disrupt_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/disrupt"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/replacement"
)

// repairWorld is a pool with a machine that has been broken for an hour and runs a pod.
type repairWorld struct {
	*clustertest.World
	reconciler *disrupt.Reconciler
	grace      time.Duration // of the policy
}

// brokenThings are the objects of a repairWorld.
type brokenThings struct {
	pool  *v1.NodePool
	claim *v1.NodeClaim
	node  *corev1.Node
	pod   *corev1.Pod
}

func newRepairWorld(t *testing.T, change func(*brokenThings), more ...client.Object) *repairWorld {
	t.Helper()
	x := &brokenThings{pool: clustertest.Pool("general"), pod: clustertest.Bound("web", "1", "general-a")}
	x.claim, x.node = clustertest.Machine(x.pool, "general-a", old)
	x.pod.Spec.Containers[0].Image = "x"
	w := &repairWorld{World: clustertest.New(t, interceptor.Funcs{}, more...)}
	x.node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.Clock.Now().Add(-time.Hour)),
	}}
	if change != nil {
		change(x)
	}
	for _, o := range []client.Object{x.pool, x.claim, x.node, x.pod} {
		w.Put(o)
	}
	w.reconciler = newReconciler(w.World)
	return w
}

// pass is a pass of a process that knows what broken means; meanwhile is done once it has looked.
func (w *repairWorld) pass(meanwhile ...func()) {
	w.Helper()
	snap, err := w.reconciler.Snapshot(w)
	w.Must(err)
	for i := range snap.Classes {
		snap.Classes[i].Repairs = []engine.RepairPolicy{{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute, Grace: w.grace}}
	}
	for _, do := range meanwhile {
		do()
	}
	w.Must(w.reconciler.CarryOut(w, snap, disruption.Plan(snap, engine.Options{}, nil)))
}

// heal has the kubelet report that the node is ready.
func (w *repairWorld) heal() {
	w.Helper()
	_, node := get(w.World, "general-a")
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(w.Clock.Now())
	w.Must(w.Client.Status().Update(w, node))
}

// goneBy checks that the machine's claim was deleted, and when its pods have to be gone.
func (w *repairWorld) goneBy(deadline time.Time) {
	w.Helper()
	claim, _ := get(w.World, "general-a")
	if claim.DeletionTimestamp == nil {
		w.Fatal("the machine stays")
	}
	if got, want := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey], deadline.UTC().Format(time.RFC3339); got != want {
		w.Errorf("its pods have until %q, want %q", got, want)
	}
	if c := v1.GetCondition(claim, v1.ConditionDisruptionReason); c == nil || c.Reason != string(v1.Unhealthy) {
		w.Errorf("its claim says %+v", c)
	}
}

func TestABrokenMachineGoesNowWhateverProtectsIt(t *testing.T) {
	t.Parallel()
	never := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never"}}
	never.Spec.Selector, never.Spec.MaxUnavailable = &metav1.LabelSelector{}, &intstr.IntOrString{}
	for name, c := range map[string]struct {
		change func(*brokenThings)
		more   []client.Object
	}{
		"a pod that is not to be disrupted":   {func(x *brokenThings) { x.pod.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"} }, nil},
		"a pod that may not be evicted":       {nil, []client.Object{never}},
		"a pool that lets nothing go":         {func(x *brokenThings) { x.pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "0"}} }, nil},
		"a node that is not to be disrupted":  {func(x *brokenThings) { x.node.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"} }, nil},
		"an hour for its pods":                {func(x *brokenThings) { x.claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour} }, nil},
		"a node that was registered just now": {func(x *brokenThings) { x.node.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute)) }, nil},
		"another deadline, an hour from now":  {func(x *brokenThings) { x.claim.Annotations = until(start.Add(time.Hour)) }, nil},
		"a deadline that nobody can read": {func(x *brokenThings) {
			x.claim.Annotations = map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: "soon"}
		}, nil},
		"a repair that could not replace it":   {func(x *brokenThings) { x.claim.Annotations = takenBack() }, nil},
		"a pod that is expected on the node":   {nil, []client.Object{nominated("general-a")}},
		"nothing, and its pods can go nowhere": {func(x *brokenThings) { x.pod.Spec.NodeSelector = map[string]string{"nobody": "has"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepairWorld(t, c.change, c.more...)
			w.pass()
			w.goneBy(w.Clock.Now())
			w.heal()
			w.Clock.Step(time.Minute)
			w.pass()
			w.goneBy(w.Clock.Now().Add(-time.Minute))
		})
	}
}

func TestAnEarlierDeadlineStays(t *testing.T) {
	t.Parallel()
	w := newRepairWorld(t, func(x *brokenThings) { x.claim.Annotations = until(start.Add(-time.Hour)) })
	w.pass()
	w.goneBy(w.Clock.Now().Add(-time.Hour))
}

// A pass begins up to a second after a kubelet has reported a fault, and the kubelet may report Ready again by then. The report counts for
// some seconds.
func TestAFaultThatIsTakenBackBeforeThePassLooksCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		later time.Duration
		goes  bool
	}{"within a second": {time.Second, true}, "much later": {time.Minute, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepairWorld(t, nil)
			_, node := get(w.World, "general-a")
			w.reconciler.ReportFault(node)
			w.heal()
			w.Clock.Step(c.later)
			w.pass()
			if c.goes {
				w.goneBy(w.Clock.Now())
			} else if claim, _ := get(w.World, "general-a"); claim.DeletionTimestamp != nil {
				t.Error("a node that has long been well goes")
			}
		})
	}
}

// Where the policy gives the drain some time, what the pods need is started first. It is not waited for any longer, and a kubelet
// that reports Ready again changes nothing.
func TestARepairWaitsForItsReplacementNoLongerThanItsPolicyGives(t *testing.T) {
	t.Parallel()
	w := newRepairWorld(t, func(x *brokenThings) { x.pod.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"} })
	w.grace = 5 * time.Minute
	w.pass()
	w.heal()
	w.Clock.Step(5*time.Minute - time.Second)
	w.pass()
	if claim, node := get(w.World, "general-a"); claim.DeletionTimestamp != nil || !closed(node) || len(w.Claims()) != 2 {
		t.Fatalf("deleted %v, closed %v, %d claims", claim.DeletionTimestamp, closed(node), len(w.Claims()))
	}
	w.Clock.Step(time.Second)
	w.pass(w.arrive)
	w.goneBy(w.Clock.Now().Add(5 * time.Minute))
}

func TestAPodThatComesLateDoesNotKeepABrokenMachine(t *testing.T) {
	t.Parallel()
	w := newRepairWorld(t, nil)
	w.pass(w.arrive)
	w.goneBy(w.Clock.Now())
}

// arrive has kube-scheduler bind one more pod to the machine.
func (w *repairWorld) arrive() {
	w.Helper()
	pod := clustertest.Bound("late", "100m", "general-a")
	pod.Spec.Containers[0].Image = "x"
	w.Put(pod)
}

// start is what the clock of a world shows at first.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func until(at time.Time) map[string]string {
	return map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: at.Format(time.RFC3339)}
}

func takenBack() map[string]string {
	return map[string]string{v1.DisruptionBackoffAnnotationKey: replacement.Failure{Count: 3, Last: start, Why: "x", Alone: true, Reason: v1.Unhealthy}.Text()}
}

func nominated(node string) *corev1.Pod {
	pod := clustertest.Pending("waits", "100m")
	pod.Status.NominatedNodeName = node
	return pod
}
