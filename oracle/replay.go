package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// A replay asks kube-scheduler about all steps of one plan.
type replay struct {
	judge    *Judge
	plan     *engine.Plan
	snapshot *engine.Snapshot
	report   Report
	pods     map[engine.PodID]*corev1.Pod
	where    map[engine.PodID]string
	machines []*machine
	// cluster is the snapshot with the machines as they are in world 0.
	cluster *engine.Snapshot
	// names lists all nodes. existing lists the nodes that belong to no launch and have a single possible look.
	names, existing []string
	leaving         map[string]bool
	// gone holds, in one world, the running pods that have left their node. preempted holds the ending pods that were removed for a pod that is
	// nominated to their node.
	gone      map[*corev1.Pod]bool
	preempted []*corev1.Pod
	// housed holds, in one world, the pods of DaemonSets that were bound to machines.
	housed map[types.UID]bool
	// passed lists, for pods of launches, the existing nodes that kube-scheduler would have accepted at the pod's turn.
	passed map[types.UID][]string
	// offers lists new machines that kube-scheduler has always accepted, for pods that the plan does not place.
	offers []offer
	// accepted lists nodes that the engine refuses and that kube-scheduler has always accepted.
	accepted []Disagreement
}

func newReplay(j *Judge, s *engine.Snapshot, plan *engine.Plan) *replay {
	r := &replay{
		judge: j, plan: plan, snapshot: s, pods: map[engine.PodID]*corev1.Pod{}, where: targets(plan), leaving: map[string]bool{},
		passed: map[types.UID][]string{},
	}
	for _, pod := range s.Pods {
		r.pods[engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}] = pod
	}
	nodes := r.readMachines()
	var open []string
	for _, m := range r.machines {
		if len(m.looks) > 1 {
			open = append(open, m.name)
		}
	}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		m, unknown := j.launched(s, l)
		for _, id := range unknown {
			r.object(0, engine.PodID{}, l.Name, "Predict", "no node is predicted for the offering "+id.String())
		}
		if len(m.looks) > 0 {
			r.machines = append(r.machines, m)
		}
	}
	cluster := *s
	cluster.CSINodes = slices.Clone(s.CSINodes)
	for _, m := range r.machines {
		l := m.smallest(0)
		nodes = append(nodes, l.node)
		if l.csi != nil && !slices.Contains(cluster.CSINodes, l.csi) {
			cluster.CSINodes = append(cluster.CSINodes, l.csi)
		}
	}
	cluster.Nodes = nodes
	r.cluster = &cluster
	for _, n := range nodes {
		r.names = append(r.names, n.Name)
	}
	r.existing = slices.DeleteFunc(slices.Clone(r.names), func(name string) bool {
		return strings.HasPrefix(name, launchPrefix) || slices.Contains(open, name)
	})
	return r
}

// run replays the plan in one world. Only world 0 asks about more nodes than the planned ones.
func (r *replay) run(world int) error {
	if err := r.start(world); err != nil {
		return err
	}
	if err := r.evict(); err != nil {
		return err
	}
	if err := r.house(world); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(r.judge.Seed, 1))
	for step, id := range sequence(r.plan) {
		pod, node := r.pods[id], r.where[id]
		if pod == nil || !slices.Contains(r.names, node) {
			continue // complete records it
		}
		ask := []string{node}
		if world == 0 {
			r.report.Placements++
			ask = append(ask, r.others(dice, node)...)
		}
		if err := r.step(world, step, pod, ask); err != nil {
			return err
		}
	}
	if world == 0 {
		r.complete()
		if err := r.unplaced(); err != nil {
			return err
		}
		r.offers = r.draw()
	} else if err := r.doubt(); err != nil {
		return err
	}
	if err := r.unbought(); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	if err := r.doubt(); err != nil {
		return err
	}
	if world == 0 {
		if err := r.needless(); err != nil {
			return err
		}
	}
	return r.unbought()
}

func (r *replay) start(world int) error {
	scheduler, defaults := r.judge.Scheduler, r.judge.DefaultConstraints
	r.gone, r.preempted, r.housed = map[*corev1.Pod]bool{}, nil, map[types.UID]bool{}
	if world == 0 {
		return scheduler.Reset(r.cluster, defaults)
	}
	if err := scheduler.Again(defaults); err != nil {
		return err
	}
	dice := rand.New(rand.NewPCG(r.judge.Seed, 2))
	for _, m := range r.machines {
		l := m.smallest(world)
		if r.isMixed(world) {
			l = m.looks[dice.IntN(len(m.looks))]
		}
		if err := scheduler.AddNode(l.node, l.csi); err != nil {
			return err
		}
	}
	return nil
}

// others chooses random nodes other than the pod's planned node.
func (r *replay) others(dice *rand.Rand, target string) []string {
	var out []string
	for range r.judge.others() {
		name := r.names[dice.IntN(len(r.names))]
		if name != target && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// evict unbinds the pods that the plan moves, all before the first step, because the plan is about their successors, and evictions follow no
// order.
func (r *replay) evict() error {
	ids := slices.Clone(r.plan.Sequence)
	for _, u := range r.plan.Unplaced {
		ids = append(ids, u.Pod)
	}
	for _, id := range ids {
		pod := r.pods[id]
		if pod == nil || pod.Spec.NodeName == "" || r.gone[pod] {
			continue
		}
		r.gone[pod] = true
		if kube.IsTerminal(pod) {
			r.object(0, id, pod.Spec.NodeName, "Snapshot", "the pod has ended and needs no other place")
			continue
		}
		if err := r.judge.Scheduler.Unbind(pod); err != nil {
			return err
		}
	}
	return nil
}

// step asks about all the nodes, and binds the pod to the first, which is its planned node.
func (r *replay) step(world, step int, pod *corev1.Pod, nodes []string) error {
	scheduler := r.judge.Scheduler
	if pod.Spec.NodeName != "" { // its node is leaving
		pod = successor(pod)
	}
	if pod.Status.NominatedNodeName == nodes[0] {
		if err := r.preempt(nodes[0]); err != nil {
			return err
		}
	}
	if err := r.diverted(world, pod, nodes[0]); err != nil {
		return err
	}
	verdicts, err := r.ask(pod, nodes)
	if err != nil {
		return err
	}
	id := engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	if v := verdicts[0]; !v.OK {
		r.object(world, id, v.Node, v.Plugin, v.Message)
	}
	for _, v := range verdicts[1:] {
		if err := r.compare(step, pod, v); err != nil {
			return err
		}
	}
	if world == 0 && strings.HasPrefix(nodes[0], launchPrefix) {
		if err := r.note(pod); err != nil {
			return err
		}
	}
	return scheduler.Bind(pod, nodes[0])
}

// successor returns the pod that the owner creates after this pod has ended.
func successor(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName, pod.DeletionTimestamp, pod.Status = "", nil, corev1.PodStatus{}
	return pod
}

// diverted records a pod that the plan places on another node than its nominated node. kube-scheduler tries the nominated node first, and no
// other node if that fits.
func (r *replay) diverted(world int, pod *corev1.Pod, node string) error {
	home := pod.Status.NominatedNodeName
	if home == "" || home == node || r.leaving[home] || !slices.Contains(r.names, home) {
		return nil
	}
	verdicts, err := r.ask(pod, []string{home})
	if err != nil || !verdicts[0].OK {
		return err
	}
	cause, err := r.cause(pod, home, engine.Reason{})
	if err != nil {
		return err
	}
	if cause != "" {
		r.report.excused(cause, 1)
		return nil
	}
	r.object(world, engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, node, "Nomination", "kube-scheduler runs it on "+home)
	return nil
}

// preempt unbinds the ending pods of a node, because a pod that is nominated to the node waits for their end.
func (r *replay) preempt(node string) error {
	for _, pod := range r.snapshot.Pods {
		if pod.Spec.NodeName != node || pod.DeletionTimestamp == nil || kube.IsTerminal(pod) || r.gone[pod] {
			continue
		}
		r.gone[pod] = true
		r.preempted = append(r.preempted, pod)
		if err := r.judge.Scheduler.Unbind(pod); err != nil {
			return err
		}
	}
	return nil
}

// restore binds the preempted pods again, because until they end they keep other pods away.
func (r *replay) restore() error {
	for _, pod := range r.preempted {
		delete(r.gone, pod)
		if err := r.judge.Scheduler.Bind(pod, pod.Spec.NodeName); err != nil {
			return err
		}
	}
	r.preempted = nil
	return nil
}

func (r *replay) ask(pod *corev1.Pod, nodes []string) ([]Verdict, error) {
	verdicts, err := r.judge.Scheduler.Ask(pod, nodes...)
	if err != nil {
		return nil, err
	}
	for _, v := range verdicts {
		r.report.Asked++
		if !v.OK {
			r.report.refused(v.Plugin, 1)
		}
	}
	return verdicts, nil
}

// object records a placement that kube-scheduler refuses.
func (r *replay) object(world int, pod engine.PodID, node, plugin, message string) {
	r.report.Disagreements = append(r.report.Disagreements, Disagreement{
		Seed: r.judge.Seed, World: world, Pod: pod, Node: node, Placed: true, Plugin: plugin, Message: message,
	})
}

// complete records placed pods without a position in the sequence, and pods of the sequence without a node.
func (r *replay) complete() {
	missing, idle := unsequenced(r.plan)
	for _, id := range missing {
		r.object(0, id, r.where[id], "Sequence", "the pod is placed but is not in the plan's sequence")
	}
	for _, id := range idle {
		r.object(0, id, "", "Sequence", "the pod is in the plan's sequence but is not placed")
	}
	for _, id := range sequence(r.plan) {
		if node := r.where[id]; node != "" && (r.pods[id] == nil || !slices.Contains(r.names, node)) {
			r.object(0, id, node, "Snapshot", fmt.Sprintf("pod known: %t, node known: %t", r.pods[id] != nil, slices.Contains(r.names, node)))
		}
	}
}
