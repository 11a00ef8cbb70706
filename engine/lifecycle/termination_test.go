package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

// leavingLife is a claim whose node is closed and has settled.
func leavingLife(change ...func(*Life)) Life {
	l := Life{Now: enginetest.LifeStart.Add(10 * time.Second), Claim: enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifeDeleted, enginetest.LifeDrainingSince(enginetest.LifeStart)),
		Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed)}}
	for _, f := range change {
		f(&l)
	}
	return l
}

// evictions renders what a step evicts, "a" for an eviction and "a!30" for a deletion with 30 s of grace.
func evictions(step Step) string {
	var out []string
	for _, e := range step.Evict {
		text := e.Pod.Name
		if e.Force {
			text += fmt.Sprintf("!%d", e.Grace)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestDeletedClaimClosesItsNodeFirst(t *testing.T) {
	t.Parallel()
	open := enginetest.LifeNode(enginetest.LifeOpen, func(n *corev1.Node) {
		n.Finalizers = nil
		n.Spec.Taints = []corev1.Taint{{Key: v1.DisruptedTaintKey, Effect: corev1.TaintEffectNoExecute}}
		n.Annotations = map[string]string{v1.NoticeAnnotationKey: engine.NoticeSpotInterruption}
	})
	life := Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifeDeleted), Nodes: []*corev1.Node{open}}
	if step := Next(life); !slices.Equal(step.DeleteNodes, []string{"node-1"}) || len(step.Withdraw) > 0 {
		t.Errorf("with nominations off: delete %v, withdraw %v", step.DeleteNodes, step.Withdraw)
	}
	life.Nominating = true
	step := Next(life)
	if len(step.Nodes) != 1 {
		t.Fatalf("step %+v", step)
	}
	n := step.Nodes[0]
	if !ours(n) || n.Labels[v1.ExcludeBalancersLabelKey] != "karpenter" || !slices.Equal(n.Spec.Taints, []corev1.Taint{v1.DisruptedTaint()}) {
		t.Errorf("finalizers %v, labels %v, taints %v", n.Finalizers, n.Labels, n.Spec.Taints)
	}
	if !slices.Equal(step.DeleteNodes, []string{"node-1"}) || !slices.Equal(step.Withdraw, []string{"node-1"}) || len(step.Evict) != 0 {
		t.Errorf("delete %v, withdraw %v, evict %v", step.DeleteNodes, step.Withdraw, step.Evict)
	}
	if got := enginetest.ConditionText(step.Claim, v1.ConditionDrained); got != "Unknown Draining" {
		t.Errorf("Drained is %s", got)
	}
	if got := enginetest.ConditionText(step.Claim, v1.ConditionDisruptionReason); got != "True SpotInterruption" {
		t.Errorf("DisruptionReason is %s", got)
	}
}

func TestUnregisteredNodeIsLeftToTheCloudController(t *testing.T) {
	t.Parallel()
	deleted := enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeDeleted)
	step := Next(Life{Now: enginetest.LifeStart, Claim: deleted, Nodes: []*corev1.Node{enginetest.LifeNode()}})
	if step.Ask != AskTerminate {
		t.Errorf("step %+v, want the machine terminated", step)
	}
	step = Next(Life{Now: enginetest.LifeStart, Claim: deleted, Nodes: []*corev1.Node{enginetest.LifeNode()}, Machine: MachineGone})
	if !step.Release || len(step.DeleteNodes) != 0 || len(step.ReleaseNodes) != 0 {
		t.Errorf("step %+v, want the claim released", step)
	}
}

func TestNodeThatOpenedBeforeItsClaimSaidSoIsDrained(t *testing.T) {
	t.Parallel()
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeDeleted), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}})
	if len(step.Nodes) != 1 || len(step.DeleteNodes) != 1 {
		t.Errorf("step %+v, want the node closed", step)
	}
}

func TestClaimWithoutOurFinalizerIsLeftAlone(t *testing.T) {
	t.Parallel()
	step := Next(leavingLife(func(l *Life) { l.Claim.Finalizers = []string{"other"} }))
	if !step.Quiet() {
		t.Errorf("step %+v", step)
	}
}

func TestDrainTiers(t *testing.T) {
	t.Parallel()
	daemon := enginetest.LifeOwned("apps/v1", "DaemonSet")
	tolerant := func(operator corev1.TolerationOperator) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: v1.DisruptedTaintKey, Operator: operator}}
		}
	}
	cordoned := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}}
	}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	soon := enginetest.LifeEnding(enginetest.LifeStart.Add(time.Minute))
	all := []*corev1.Pod{enginetest.LifePod("d", enginetest.LifeCritical, daemon), enginetest.LifePod("c", enginetest.LifeCritical), enginetest.LifePod("b", daemon), enginetest.LifePod("a2"), enginetest.LifePod("a1")}
	tests := []struct {
		name string
		pods []*corev1.Pod
		want string
	}{
		{"ordinary pods first", all, "a1 a2"},
		{"then ordinary DaemonSet pods", all[:3], "b"},
		{"then critical pods", all[:2], "c"},
		{"then critical DaemonSet pods", all[:1], "d"},
		{"an ending pod keeps its tier occupied", append(slices.Clone(all[:3]), enginetest.LifePod("x", soon)), ""},
		{"a protected pod keeps its tier occupied", append(slices.Clone(all[:3]), enginetest.LifePod("x", enginetest.LifeProtected("true"))), ""},
		{"others of a protected pod's tier go", []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true")), enginetest.LifePod("y")}, "y"},
		{"false protects nothing", []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("false"))}, "x"},
		{"tolerating unschedulable does not help", []*corev1.Pod{enginetest.LifePod("x", cordoned)}, "x"},
		{"undrainable pods are left", []*corev1.Pod{enginetest.LifePod("x", tolerant(corev1.TolerationOpExists)), enginetest.LifePod("y", tolerant(corev1.TolerationOpEqual)),
			enginetest.LifePod("m", enginetest.LifeOwned("v1", "Node")), enginetest.LifePod("e", ended), enginetest.LifePod("s", enginetest.LifeEnding(enginetest.LifeStart.Add(-90*time.Second))), enginetest.LifePod("z")}, "z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			step := Next(leavingLife(func(l *Life) { l.Pods = tt.pods }))
			if got := evictions(step); got != tt.want {
				t.Errorf("evicts %q, want %q", got, tt.want)
			}
			if step.Ask != AskNothing || step.After == 0 {
				t.Errorf("ask %v, after %v: a drain that waits looks again", step.Ask, step.After)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	patience := 300 * time.Second // from LifeStart
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	tolerant := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: v1.DisruptedTaintKey, Operator: corev1.TolerationOpExists}}
	}
	tests := []struct {
		name  string
		now   time.Duration
		pods  []*corev1.Pod
		want  string
		after time.Duration // 0: not checked
	}{
		{"protected pod is untouched while its grace fits", 90 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"), enginetest.LifeGrace(60))}, "", 10 * time.Second},
		{"looked at again exactly when it does not fit any more", 235 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"), enginetest.LifeGrace(60))}, "", 5 * time.Second},
		{"then it gets exactly its grace", 240 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"), enginetest.LifeGrace(60))}, "x!60", 0},
		{"grace as long as the deadline: at once", 10 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"), enginetest.LifeGrace(300))}, "x!290", 0},
		{"past the deadline: one second", 400 * time.Second, []*corev1.Pod{enginetest.LifePod("x")}, "x!1", 0},
		{"tiers do not hold what is overdue", 280 * time.Second, []*corev1.Pod{enginetest.LifePod("c", enginetest.LifeCritical), enginetest.LifePod("a", enginetest.LifeGrace(5))}, "c!20 a", 0},
		{"an ending pod that would overshoot is shortened", 90 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeEnding(enginetest.LifeStart.Add(6000*time.Second)))}, "x!210", 0},
		{"an ending pod in time is left", 90 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeEnding(enginetest.LifeStart.Add(200*time.Second)))}, "", 0},
		{"those that nobody waits for are left, overdue or not", 400 * time.Second, []*corev1.Pod{enginetest.LifePod("ended", ended), enginetest.LifePod("stays", tolerant),
			enginetest.LifePod("mirror", enginetest.LifeOwned("v1", "Node")), enginetest.LifePod("stuck", enginetest.LifeEnding(enginetest.LifeStart)), enginetest.LifePod("x")}, "x!1", 0},
		{"shortened once is enough", 400 * time.Second, []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeEnding(enginetest.LifeStart.Add(401*time.Second)))}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			step := Next(leavingLife(func(l *Life) {
				l.Now, l.Pods = enginetest.LifeStart.Add(tt.now), tt.pods
				l.Claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: patience}
			}))
			if got := evictions(step); got != tt.want {
				t.Errorf("evicts %q, want %q", got, tt.want)
			}
			if tt.after != 0 && step.After != tt.after {
				t.Errorf("after %v, want %v", step.After, tt.after)
			}
			if got := step.Claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]; got != "2030-01-02T03:09:00Z" {
				t.Errorf("deadline %q: deletion plus the grace period", got)
			}
		})
	}
}

func TestDeadlineAnnotation(t *testing.T) {
	t.Parallel()
	period := &metav1.Duration{Duration: 300 * time.Second}
	existing := Next(leavingLife(func(l *Life) {
		l.Claim.Spec.TerminationGracePeriod = period
		l.Claim.Annotations = map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: "2030-01-02T03:04:05Z"}
		l.Pods = []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"))}
	}))
	if evictions(existing) != "x!1" {
		t.Errorf("evicts %q: an existing deadline stands", evictions(existing))
	}
	extended := Next(leavingLife(func(l *Life) {
		l.Now = enginetest.LifeStart.Add(400 * time.Second)
		l.Claim.Spec.TerminationGracePeriod = period
		l.Claim.Annotations = map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: "2030-01-02T04:04:00Z"}
		l.Pods = []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("true"))}
	}))
	if evictions(extended) != "" {
		t.Errorf("evicts %q: a deadline that somebody has put off has not come", evictions(extended))
	}
	bad := Next(leavingLife(func(l *Life) {
		l.Claim.Annotations = map[string]string{v1.NodeClaimTerminationTimestampAnnotationKey: "tomorrow"}
		l.Pods = []*corev1.Pod{enginetest.LifePod("x")}
	}))
	if evictions(bad) != "x" || len(bad.Events) != 1 || !strings.Contains(bad.Events[0].Message, "tomorrow") {
		t.Errorf("evicts %q, events %v: a deadline that cannot be read is told and ignored", evictions(bad), bad.Events)
	}
	none := Next(leavingLife(func(l *Life) { l.Pods = []*corev1.Pod{enginetest.LifePod("x")} }))
	if none.Claim != nil && none.Claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey] != "" {
		t.Error("a claim without a grace period got a deadline")
	}
}

func TestProtectionOfLimitedLengthWakesTheDrain(t *testing.T) {
	t.Parallel()
	step := Next(leavingLife(func(l *Life) {
		started := metav1.NewTime(enginetest.LifeStart)
		l.Pods = []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("15s"), func(p *corev1.Pod) { p.Status.StartTime = &started })}
	}))
	if evictions(step) != "" || step.After != 5*time.Second {
		t.Errorf("evicts %q, after %v", evictions(step), step.After)
	}
	told := map[string]engine.Event{}
	for _, e := range step.Events {
		told[e.Object.GetName()] = e
	}
	if len(step.Events) != 3 || !strings.Contains(told["node-1"].Message, "ns/x") || !strings.Contains(told["general-1"].Message, "ns/x") ||
		told["x"].Reason != "DoNotDisruptUntil" || !strings.Contains(told["x"].Message, "2030-01-02T03:04:15Z") {
		t.Errorf("events %v: the pod that holds the drain is named on node and claim, and told until when", step.Events)
	}
	step = Next(leavingLife(func(l *Life) {
		started := metav1.NewTime(enginetest.LifeStart.Add(-time.Minute))
		l.Pods = []*corev1.Pod{enginetest.LifePod("x", enginetest.LifeProtected("15s"), func(p *corev1.Pod) { p.Status.StartTime = &started })}
	}))
	if evictions(step) != "x" || len(step.Events) != 1 || step.Events[0].Reason != "DoNotDisruptGracePeriodElapsed" || step.Events[0].Object.GetName() != "x" {
		t.Errorf("evicts %q, events %v: a pod whose protection has ended goes, and is told so", evictions(step), step.Events)
	}
}

func TestNothingIsTerminatedOnTheWordOfACache(t *testing.T) {
	t.Parallel()
	young := leavingLife(func(l *Life) { l.Now = enginetest.LifeStart.Add(time.Second) })
	if step := Next(young); step.Ask != AskNothing || step.After != 500*time.Millisecond {
		t.Errorf("taint just put: %+v, want to wait until the scheduler has seen it", step)
	}
	if step := Next(leavingLife()); step.Ask != AskPods {
		t.Errorf("no pods in the cache: ask %v, want the pods listed", step.Ask)
	}
	late := leavingLife(func(l *Life) { l.Fresh, l.Pods = true, []*corev1.Pod{enginetest.LifePod("late")} })
	if step := Next(late); evictions(step) != "late" || step.Ask != AskNothing {
		t.Errorf("bound just before the taint: %+v, want it evicted", step)
	}
	if step := Next(leavingLife(func(l *Life) { l.Fresh = true })); step.Ask != AskTerminate {
		t.Errorf("no pods at all: ask %v, want the machine terminated", step.Ask)
	}
}

func TestMachineBeforeNodeBeforeClaim(t *testing.T) {
	t.Parallel()
	told := Next(leavingLife(func(l *Life) { l.Fresh, l.Machine = true, MachineLeaving }))
	for condition, want := range map[string]string{v1.ConditionDrained: "True", v1.ConditionVolumesDetached: "True", v1.ConditionInstanceTerminating: "True"} {
		if got := enginetest.ConditionText(told.Claim, condition); got != want {
			t.Errorf("%s is %s", condition, got)
		}
	}
	if len(told.ReleaseNodes) != 0 || told.Release || told.After != time.Second {
		t.Errorf("machine still there: %+v", told)
	}
	stillThere := Life{Now: enginetest.LifeStart.Add(time.Minute), Claim: told.Claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed)}, Pods: []*corev1.Pod{enginetest.LifePod("x")}}
	if step := Next(stillThere); step.Ask != AskTerminate {
		t.Errorf("told already: %+v, want only the machine asked for", step)
	}
	stillThere.Machine = MachineGone
	gone := Next(stillThere)
	if !slices.Equal(gone.ReleaseNodes, []string{"node-1"}) || gone.Release {
		t.Errorf("machine gone: %+v, want the node released before the claim", gone)
	}
	stillThere.Nodes = []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed, func(n *corev1.Node) { n.Finalizers = []string{"other"} })}
	held := Next(stillThere)
	if c := v1.GetCondition(held.Claim, v1.ConditionInstanceTerminating); c.Message != "the machine is gone; Node node-1 is held by finalizers other" || held.Release {
		t.Errorf("node held by somebody else: %+v, want that told", c)
	}
	told.Claim, stillThere.Claim = stillThere.Claim, held.Claim
	if step := Next(stillThere); !step.Quiet() {
		t.Errorf("node held by somebody else: %+v, want to wait for it", step)
	}
	stillThere.Claim = told.Claim
	stillThere.Nodes = []*corev1.Node{enginetest.LifeNode()}
	if step := Next(stillThere); !slices.Equal(step.DeleteNodes, []string{"node-1"}) || step.Release {
		t.Errorf("node joined again: %+v, want it deleted", step)
	}
	stillThere.Nodes = nil
	if step := Next(stillThere); !step.Release {
		t.Errorf("node gone: %+v, want the claim released", step)
	}
}

func TestDeadNodeIsNotDrained(t *testing.T) {
	t.Parallel()
	dead := leavingLife(func(l *Life) {
		l.Nodes = []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed, enginetest.LifeNotReady)}
		l.Pods = []*corev1.Pod{enginetest.LifePod("x")}
	})
	if step := Next(dead); step.Ask != AskMachine {
		t.Errorf("not Ready: %+v, want the machine looked for", step)
	}
	dead.Machine = MachineGone
	if step := Next(dead); !slices.Equal(step.ReleaseNodes, []string{"node-1"}) || len(step.Evict) != 0 {
		t.Errorf("not Ready and gone: %+v, want the node released", step)
	}
	dead.Machine = MachinePresent
	if step := Next(dead); evictions(step) != "x" {
		t.Errorf("not Ready but there: %+v, want a drain", step)
	}
	alive := leavingLife(func(l *Life) { l.Machine, l.Pods = MachineGone, []*corev1.Pod{enginetest.LifePod("x")} })
	if step := Next(alive); evictions(step) != "x" || len(step.ReleaseNodes) != 0 {
		t.Errorf("Ready but gone: %+v, want a drain", step)
	}
}

func TestSeveralNodesOfOneMachineAllGo(t *testing.T) {
	t.Parallel()
	other := func(n *corev1.Node) { n.Name = "node-2" }
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifeDeleted), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen), enginetest.LifeNode(enginetest.LifeOpen, other)}})
	if len(step.Nodes) != 2 || !slices.Equal(step.DeleteNodes, []string{"node-1", "node-2"}) {
		t.Errorf("step %+v", step)
	}
}

func TestVolumesAreDetachedFirst(t *testing.T) {
	t.Parallel()
	attachment := func(name, pv string) *storagev1.VolumeAttachment {
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if pv != "" {
			a.Spec.Source.PersistentVolumeName = &pv
		}
		return a
	}
	stays := enginetest.LifePod("agent", enginetest.LifeOwned("v1", "Node"), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "kept"}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		}
	})
	pvc := func(name, pv string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pv}}
	}
	life := func(now time.Duration, attachments ...*storagev1.VolumeAttachment) Life {
		return leavingLife(func(l *Life) {
			l.Now, l.Fresh, l.Attachments, l.Pods = enginetest.LifeStart.Add(now), true, attachments, []*corev1.Pod{stays}
			l.VolumeClaims = []*corev1.PersistentVolumeClaim{pvc("kept", "pv-kept"), pvc("agent-scratch", "pv-scratch"), pvc("gone", "pv-gone")}
		})
	}
	if step := Next(life(time.Minute, attachment("a", "pv-kept"), attachment("b", ""), attachment("c", "pv-scratch"))); step.Ask != AskTerminate {
		t.Errorf("only volumes of pods that stay: %+v", step)
	}
	waiting := Next(life(time.Minute, attachment("a", "pv-gone")))
	if waiting.Ask != AskNothing || enginetest.ConditionText(waiting.Claim, v1.ConditionVolumesDetached) != "Unknown AwaitingVolumeDetachment" ||
		enginetest.ConditionText(waiting.Claim, v1.ConditionDrained) != "True" || waiting.After == 0 || len(waiting.Events) != 1 {
		t.Errorf("a volume is attached: %+v", waiting)
	}
	late := life(10*time.Minute, attachment("a", "pv-gone"))
	late.Claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Minute}
	late.Machine = MachineLeaving
	if step := Next(late); enginetest.ConditionText(step.Claim, v1.ConditionVolumesDetached) != "False TerminationGracePeriodElapsed" {
		t.Errorf("after the deadline: %s", enginetest.ConditionText(step.Claim, v1.ConditionVolumesDetached))
	}
}

func TestNodeWithoutClaimIsDrainedAndReleased(t *testing.T) {
	t.Parallel()
	l := Life{Now: enginetest.LifeStart.Add(10 * time.Second), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed)}, Pods: []*corev1.Pod{enginetest.LifePod("x")}}
	if step := Next(l); evictions(step) != "x" {
		t.Errorf("step %+v", step)
	}
	l.Pods, l.Fresh = nil, true
	if step := Next(l); step.Ask != AskTerminate {
		t.Errorf("step %+v", step)
	}
	l.Machine = MachineGone
	if step := Next(l); !slices.Equal(step.ReleaseNodes, []string{"node-1"}) || step.Release {
		t.Errorf("step %+v", step)
	}
}

func TestDeletedClaimThatNeverLaunchedAsksForItsMachine(t *testing.T) {
	t.Parallel()
	l := Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeDeleted)}
	if step := Next(l); step.Ask != AskTerminate {
		t.Errorf("step %+v: a launch may have been cut short", step)
	}
	l.Machine = MachineGone
	if step := Next(l); !step.Release {
		t.Errorf("step %+v", step)
	}
}

// Somebody has taken the node away, and its kubelet has made it anew: the pods of the one are on the other.
func TestAClaimThatLostItsNodeIsDrainedIfItHasAnother(t *testing.T) {
	t.Parallel()
	claim := lifeGone(t, enginetest.LifeDeleted)
	if step := Next(Life{Now: enginetest.LifeStart, Claim: claim}); step.Ask != AskNode {
		t.Errorf("step %+v: want the node looked for before the machine is stopped", step)
	}
	if step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Sought: true}); step.Ask != AskTerminate {
		t.Errorf("step %+v: want the machine stopped, there is no node", step)
	}
	step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode()}, Pods: []*corev1.Pod{enginetest.LifePod("x")}})
	if len(step.Nodes) != 1 || !ours(step.Nodes[0]) || !slices.Equal(step.DeleteNodes, []string{"node-1"}) {
		t.Errorf("step %+v: want the node closed first", step)
	}
}
