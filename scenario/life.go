package scenario

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
)

// This file takes the steps of one claim's life, like the controller of claims.

// lifeWords are the facts outside the cluster that a life command gives.
type lifeWords struct {
	name                  string
	machineGone           bool
	podLeft, briefPodLeft *time.Duration // time since then, nil for never
	unseen                []string       // pods that the cache does not show yet
}

func (l *lifeWords) word(w word) (handled bool, err error) {
	switch key, _ := w.cut(); key {
	case "machine-gone":
		l.machineGone = true
	case "pod-left":
		err = w.since(&l.podLeft)
	case "brief-pod-left":
		err = w.since(&l.briefPodLeft)
	case "unseen":
		l.unseen = w.list()
	default:
		return false, nil
	}
	return true, err
}

// mostSteps is more than the steps of any life without waiting.
const mostSteps = 20

// live takes the steps of a life until it must wait, and prints them. An event follows the change that it reports.
func (b *builder) live(c command) string {
	x := lifeRun{s: &b.snapshot, words: c.life, nominating: !c.options.NoNominations, told: map[string]bool{}}
	if !x.read() {
		return "there is no claim " + c.life.name + ", and no node of that name without one\n"
	}
	steps := 0
	for x.step() && x.read() {
		if steps++; steps == mostSteps {
			return x.out.String() + "and so on\n"
		}
	}
	if x.out.Len() == 0 {
		return "nothing to do\n"
	}
	return x.out.String()
}

// lifeRun is the state of a life command.
type lifeRun struct {
	s          *engine.Snapshot
	words      lifeWords
	nominating bool
	life       lifecycle.Life
	out        strings.Builder
	told       map[string]bool // texts of printed events
}

// read reads the input of the next step, and keeps the results of earlier steps. It returns false if the life has ended.
func (x *lifeRun) read() bool {
	old := x.life
	l := lifecycle.Life{Now: x.s.Now, Sought: old.Sought, Fresh: old.Fresh, Machine: old.Machine, Nominating: x.nominating, Published: dra.Publish(x.s.ResourceSlices)}
	id := ""
	if l.Claim = named(x.s.NodeClaims, x.words.name); l.Claim != nil {
		id = l.Claim.Status.ProviderID
		l.Pool = poolNamed(x.s, l.Claim.Labels[v1.NodePoolLabelKey])
		l.Class = classOf(x.s, l.Claim.Spec.NodeClassRef)
	}
	for _, n := range x.s.Nodes {
		if l.Claim == nil && n.Name == x.words.name && n.DeletionTimestamp != nil || id != "" && n.Spec.ProviderID == id {
			l.Nodes = append(l.Nodes, n)
		}
	}
	for _, p := range x.s.Pods {
		if onAny(l.Nodes, p.Spec.NodeName) && (l.Fresh || !slices.Contains(x.words.unseen, p.Name)) {
			l.Pods = append(l.Pods, p)
		}
	}
	for _, ago := range []struct {
		said *time.Duration
		at   *time.Time
	}{{x.words.podLeft, &l.PodLeft}, {x.words.briefPodLeft, &l.BriefPodLeft}} {
		if ago.said != nil {
			*ago.at = x.s.Now.Add(-*ago.said)
		}
	}
	if l.Claim == nil || l.Claim.DeletionTimestamp != nil {
		l.VolumeClaims = x.s.PersistentVolumeClaims
		l.Attachments = slices.DeleteFunc(slices.Clone(x.s.VolumeAttachments), func(a *storagev1.VolumeAttachment) bool { return !onAny(l.Nodes, a.Spec.NodeName) })
		l.Budgets = slices.DeleteFunc(slices.Clone(x.s.PodDisruptionBudgets), func(b *policyv1.PodDisruptionBudget) bool {
			return !slices.ContainsFunc(l.Pods, func(p *corev1.Pod) bool { return p.Namespace == b.Namespace })
		})
		l.Workloads = x.workloads(l.Pods)
	}
	x.life = l
	return l.Claim != nil || len(l.Nodes) > 0
}

// workloads returns the pods' workloads whose controller objects are in the snapshot.
func (x *lifeRun) workloads(pods []*corev1.Pod) map[types.UID]*lifecycle.Workload {
	var controllers []metav1.Object
	for _, r := range x.s.ReplicaSets {
		controllers = append(controllers, r)
	}
	for _, r := range x.s.StatefulSets {
		controllers = append(controllers, r)
	}
	out := map[types.UID]*lifecycle.Workload{}
	for _, pod := range pods {
		uid := kube.WorkloadOf(pod)
		i := slices.IndexFunc(controllers, func(o metav1.Object) bool { return o.GetUID() == uid })
		if i >= 0 && out[uid] == nil {
			out[uid] = lifecycle.NewWorkload(*metav1.GetControllerOf(pod), controllers[i],
				slices.DeleteFunc(slices.Clone(x.s.Pods), func(p *corev1.Pod) bool { return kube.WorkloadOf(p) != uid }))
		}
	}
	return out
}

func onAny(nodes []*corev1.Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
}

// step takes one step. It returns whether another step may follow immediately. The end of pods and the progress of a deletion take time.
func (x *lifeRun) step() (more bool) {
	step := lifecycle.Next(x.life)
	if step.Ask != lifecycle.AskNothing {
		x.answer(step.Ask)
		return true
	}
	switch {
	case step.Delete != nil:
		x.say("delete claim %s", x.life.Claim.Name)
		if step.Delete.Cause != "" {
			x.out.WriteString(": " + step.Delete.Cause)
		}
		x.out.WriteString("\n")
		deleteNow(&x.s.NodeClaims, x.life.Claim.DeepCopy(), x.s.Now)
	case step.Launch:
		more = x.launch()
	default:
		more = x.write(step)
	}
	x.printEvents(step.Events)
	if !more && step.After > 0 {
		x.say("look again after %s\n", engine.DurationText(step.After))
	}
	return more
}

// answer finds the facts that a step asks for.
func (x *lifeRun) answer(ask lifecycle.Ask) {
	there := !x.words.machineGone && (x.life.Claim == nil || x.life.Claim.Status.ProviderID != "")
	switch ask {
	case lifecycle.AskNode:
		x.life.Sought = true
		x.say("look for node %s\n", x.life.Claim.Status.NodeName)
	case lifecycle.AskPods:
		x.life.Fresh = true
		x.say("list pods\n")
	case lifecycle.AskMachine:
		x.life.Machine = x.tellMachine("look for machine", there, "there", lifecycle.MachinePresent)
	case lifecycle.AskTerminate:
		x.life.Machine = x.tellMachine("terminate machine", there, "leaving", lifecycle.MachineLeaving)
	}
}

func (x *lifeRun) tellMachine(what string, there bool, how string, presence lifecycle.Presence) lifecycle.Presence {
	if !there {
		how, presence = "gone", lifecycle.MachineGone
	}
	x.say("%s: %s\n", what, how)
	return presence
}

// launch starts the cheapest machine that the claim allows.
func (x *lifeRun) launch() bool {
	claim := x.life.Claim
	id := offeringOf(x.s, claim)
	t := findTypeFor(x.s, claim.Spec.NodeClassRef, claim.Labels[v1.NodePoolLabelKey], id.InstanceType)
	i := -1
	if t != nil {
		i = slices.IndexFunc(t.Offerings, func(o engine.Offering) bool { return idOf(t, o) == id })
	}
	if i < 0 {
		x.say("launch machine: nothing can be had\n")
		return false
	}
	x.say("launch machine: %s\n", id)
	launched := lifecycle.Launched(claim, engine.Machine{
		ID: engine.MachineID("kwok://" + claim.Name), Labels: machineLabels(t, t.Offerings[i]), Capacity: t.Capacity, Allocatable: t.Allocatable(),
	}, x.s.Now)
	useSlots(x.s, *claim.Spec.NodeClassRef, id.Reservation, 1)
	useQuotas(x.s, t, id, 1)
	x.putClaim(launched)
	return true
}

// write applies the rest of a step, in the order of its fields.
func (x *lifeRun) write(step lifecycle.Step) (more bool) {
	if step.Nominate != "" {
		x.say("nominate planned pods to node %s\n", step.Nominate)
		x.nominate(step.Nominate, func(p *corev1.Pod) bool { return slices.Contains(kube.PlannedPods(x.life.Claim), string(p.UID)) })
	}
	for _, n := range step.Nodes {
		x.putNode(n)
	}
	if step.Pool != nil {
		c := &changes{x, "pool " + step.Pool.Name}
		c.meta(x.life.Pool, step.Pool)
		put(&x.s.NodePools, step.Pool)
	}
	if step.Claim != nil {
		x.putClaim(step.Claim)
	}
	for _, name := range step.DeleteNodes {
		x.say("delete node %s\n", name)
		deleteNow(&x.s.Nodes, named(x.s.Nodes, name).DeepCopy(), x.s.Now)
	}
	for _, name := range step.Withdraw {
		x.say("withdraw nominations to node %s\n", name)
		x.nominate("", func(p *corev1.Pod) bool { return p.Status.NominatedNodeName == name })
	}
	for _, e := range step.Evict {
		name := PodNames([]engine.PodID{kube.PodID(e.Pod)})
		if e.Force {
			x.say("delete pod %s within %ds\n", name, e.Grace)
		} else {
			x.say("evict pod %s\n", name)
		}
	}
	for _, name := range step.ReleaseNodes {
		x.say("release node %s\n", name)
		release(&x.s.Nodes, named(x.s.Nodes, name).DeepCopy())
	}
	if step.Release {
		x.say("release claim %s\n", x.life.Claim.Name)
		release(&x.s.NodeClaims, named(x.s.NodeClaims, x.life.Claim.Name).DeepCopy())
		return false
	}
	wrote := step.Nominate != "" || len(step.Nodes) > 0 || step.Claim != nil || len(step.ReleaseNodes) > 0
	return wrote && len(step.DeleteNodes) == 0 && len(step.Evict) == 0
}

func (x *lifeRun) nominate(node string, which func(*corev1.Pod) bool) {
	for i, p := range x.s.Pods {
		if p.Spec.NodeName == "" && which(p) {
			x.s.Pods[i] = p.DeepCopy()
			x.s.Pods[i].Status.NominatedNodeName = node
		}
	}
}

// deleteNow sets an object's deletion time.
func deleteNow[T metav1.Object](list *[]T, o T, now time.Time) {
	if o.GetDeletionTimestamp() == nil {
		o.SetDeletionTimestamp(new(metav1.NewTime(now)))
	}
	put(list, o)
}

// release removes Tenon's finalizer from an object.
func release[T metav1.Object](list *[]T, o T) {
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == v1.TerminationFinalizer }))
	put(list, o)
}

// put replaces an object. It removes an object that is being deleted and has no finalizers.
func put[T metav1.Object](list *[]T, o T) {
	i := slices.IndexFunc(*list, func(other T) bool { return other.GetName() == o.GetName() })
	(*list)[i] = o
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}
