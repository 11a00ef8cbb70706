package explore

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
)

// The laws of every run. The laws about the end are in rest.go.
const (
	lawTerminate   = "no machine is stopped under a pod"
	lawEmpty       = "no node is removed as empty while a pod runs there"
	lawLimits      = "limits are never exceeded"
	lawBudgets     = "budgets are never exceeded"
	lawReplace     = "no node is removed before its replacement is ready"
	lawOneMachine  = "a claim has one machine"
	lawOneClaim    = "a pod gets one machine at a time"
	lawLabels      = "what was promised to pods stays"
	lawClass       = "nothing is launched with a class that has long been broken"
	lawFinalizer   = "nothing is launched for a claim that could vanish"
	lawProtected   = "no protected pod is evicted"
	lawHalf        = "half of a workload's pods stay"
	lawLoop        = "launching ends"
	lawPanic       = "no pass panics"
	lawUndone      = "no write undoes what another has written"
	lawDevice      = "no device is allocated twice"
	lawDisplaced   = "an evicted pod's devices are elsewhere"
	lawRoom        = "nothing is started for room that nobody wants"
	lawGhost       = "no pod is pointed at a node that is seen to leave"
	disrupter      = "disruption" // the loop that removes nodes
	provisioning   = "provisioner"
	orderKey       = "tenon.sh/disruption"
	launchesAtRest = 12 // at rest, at most this number of launches and two for each pod may be necessary
)

// laws checks a run.
type laws struct {
	w         *world
	violation *Violation
	launches  int
	calmed    int                // launches after the faults have ended
	chosen    map[types.UID]bool // nodes' claims that the autoscaler chose to delete
	most      map[string]int     // the largest number of nodes that a pool has had
	opened    map[string]bool    // machines that have had a node which accepted pods
	away      map[types.UID]int  // evicted pods of each workload without a running successor; only evictions by choice count
}

func newLaws(w *world) *laws {
	return &laws{w: w, chosen: map[types.UID]bool{}, most: map[string]int{}, opened: map[string]bool{}, away: map[types.UID]int{}}
}

// changed checks each change of an object.
func (l *laws) changed(actor string, s *shelf, c change) {
	switch o := c.object().(type) {
	case *v1.NodeClaim:
		l.claimChanged(actor, c)
	case *corev1.Pod:
		if c.new == nil || kube.IsTerminal(o) {
			l.w.kube.room++
		}
		l.podChanged(actor, c)
	case *resourcev1.ResourceClaim:
		l.w.kube.room++
		l.deviceClaimChanged(o)
	case *resourcev1.ResourceSlice:
		l.w.kube.room++
	case *appsv1.ReplicaSet:
		if c.old != nil && c.new != nil && replicasOf(c.old) != replicasOf(c.new) {
			delete(l.away, o.UID)
		}
	case *corev1.Node:
		if c.new == nil {
			l.w.kube.nodeGone[o.Name] = l.w.clock.Now()
		} else if o.Labels[v1.RegisteredLabelKey] == "true" {
			l.opened[o.Spec.ProviderID] = true
		}
	}
}

func (l *laws) claimChanged(actor string, c change) {
	claims := all[*v1.NodeClaim](l.w.api)
	if c.old == nil {
		claim := c.new.(*v1.NodeClaim)
		pool := claim.Labels[v1.NodePoolLabelKey]
		n := 0
		for _, other := range claims {
			if other.Labels[v1.NodePoolLabelKey] == pool {
				n++
			}
		}
		l.most[pool] = max(l.most[pool], n)
		if actor != "scene" {
			l.claimCreated(claim, claims)
			l.checkRoom(actor, claim)
		}
		return
	}
	if c.new == nil {
		return
	}
	old, claim := c.old.(*v1.NodeClaim), c.new.(*v1.NodeClaim)
	for key, value := range old.Labels {
		if claim.Labels[key] != value {
			l.broken(lawLabels, "label %s of NodeClaim %s was %q and is %q after %s", key, claim.Name, value, claim.Labels[key], actor)
		}
	}
	l.checkUndone(actor, old, claim)
	if actor == disrupter && old.DeletionTimestamp == nil && claim.DeletionTimestamp != nil {
		l.chosen[claim.UID] = v1.IsTrue(claim, v1.ConditionInitialized) // an uninitialized claim is no node for budgets
		l.checkBudget(claim, claims)
		l.checkEmpty(claim)
		l.checkReplaced(claim)
		l.checkDisplaced(claim)
	}
}

// deviceClaimChanged: no two claims have the same device.
func (l *laws) deviceClaimChanged(claim *resourcev1.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, other := range all[*resourcev1.ResourceClaim](l.w.api) {
		if other.UID == claim.UID || other.Status.Allocation == nil {
			continue
		}
		for _, a := range claim.Status.Allocation.Devices.Results {
			for _, b := range other.Status.Allocation.Devices.Results {
				if a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device {
					l.broken(lawDevice, "claims %s and %s both have device %s of node %s", claim.Name, other.Name, a.Device, a.Pool)
				}
			}
		}
	}
}

// checkUndone: no loop unknowingly undoes another loop's change of a claim's conditions.
func (l *laws) checkUndone(actor string, old, claim *v1.NodeClaim) {
	for _, condition := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionInstanceTerminating} {
		ofNode := condition == v1.ConditionRegistered || condition == v1.ConditionInitialized
		if v1.IsTrue(old, condition) && !v1.IsTrue(claim, condition) && !(ofNode && l.lostNode(claim)) {
			l.broken(lawUndone, "%s takes condition %s from NodeClaim %s", actor, condition, claim.Name)
		}
	}
	if v1.IsTrue(old, v1.ConditionDisruptionReason) && !v1.IsTrue(claim, v1.ConditionDisruptionReason) && actor != disrupter {
		l.broken(lawUndone, "%s takes condition %s from NodeClaim %s", actor, v1.ConditionDisruptionReason, claim.Name)
	}
}

// lostNode reports whether the claim's machine has no registered node.
func (l *laws) lostNode(claim *v1.NodeClaim) bool {
	node := l.nodeOf(claim)
	return node == nil || node.Labels[v1.RegisteredLabelKey] != "true"
}

// claimCreated: the pool's limits hold with the new claim, and no other starting machine is for one of its pods.
func (l *laws) claimCreated(claim *v1.NodeClaim, claims []*v1.NodeClaim) {
	pool := find[*v1.NodePool](l.w.api, "/"+claim.Labels[v1.NodePoolLabelKey])
	others := slices.DeleteFunc(slices.Clone(claims), func(c *v1.NodeClaim) bool { return c.UID == claim.UID || l.leaves(c) })
	if pool != nil && !l.w.withinLimits(pool, others, l.w.largest(claim)) {
		l.broken(lawLimits, "NodeClaim %s exceeds the limits %v of pool %s", claim.Name, quantities(corev1.ResourceList(pool.Spec.Limits)), pool.Name)
	}
	for _, other := range others {
		if !l.promising(other) {
			continue
		}
		for _, uid := range kube.PlannedPods(claim) {
			if slices.Contains(kube.PlannedPods(other), uid) && l.unbound(types.UID(uid)) {
				l.broken(lawOneClaim, "NodeClaims %s and %s are both for pod %s", other.Name, claim.Name, uid)
			}
		}
	}
}

// leaves reports whether the claim's machine is about to go.
func (l *laws) leaves(c *v1.NodeClaim) bool {
	node := find[*corev1.Node](l.w.api, "/"+c.Status.NodeName)
	return c.DeletionTimestamp != nil || node != nil && (node.DeletionTimestamp != nil || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }))
}

// unbound reports whether the pod exists and runs on no node. A pod that must leave its node does not count, because each plan may place it
// differently.
func (l *laws) unbound(uid types.UID) bool {
	return slices.ContainsFunc(all[*corev1.Pod](l.w.api), func(p *corev1.Pod) bool { return p.UID == uid && p.Spec.NodeName == "" && p.DeletionTimestamp == nil })
}

// late is the least time after which a machine counts as late. Its pods are then planned again.
const late = 3 * time.Minute

// promising reports whether the claim's machine may still take its planned pods.
func (l *laws) promising(claim *v1.NodeClaim) bool {
	if claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInitialized) || l.opened[claim.Status.ProviderID] { // others may have the room
		return false
	}
	if c := v1.GetCondition(claim, v1.ConditionInitialized); c != nil && c.Reason == "NodeNotFound" { // its node is gone
		return false
	}
	if c := v1.GetCondition(claim, v1.ConditionLaunched); v1.IsTrue(claim, v1.ConditionLaunched) && l.w.clock.Since(c.LastTransitionTime.Time) > late {
		return false
	}
	nodes := 0
	for _, node := range all[*corev1.Node](l.w.api) {
		if node.Spec.ProviderID != "" && node.Spec.ProviderID == claim.Status.ProviderID {
			nodes++
		}
	}
	return nodes <= 1 // if there are several nodes, none will be registered
}

func quantities(list corev1.ResourceList) string {
	var out []string
	for name, q := range list {
		out = append(out, fmt.Sprintf("%s=%s", name, q.String()))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// largest returns the largest possible capacity of the claim's machine.
func (w *world) largest(claim *v1.NodeClaim) corev1.ResourceList {
	if claim.Status.Capacity != nil {
		return claim.Status.Capacity
	}
	most := corev1.ResourceList{}
	for _, r := range claim.Spec.Requirements {
		if r.Key != corev1.LabelInstanceTypeStable {
			continue
		}
		for _, t := range w.catalog {
			for name, q := range t.Capacity {
				if have := most[name]; slices.Contains(r.Values, t.Name) && q.Cmp(have) > 0 {
					most[name] = q
				}
			}
		}
	}
	return most
}

// withinLimits reports whether a pool's limits allow one more machine beside the claims that stay.
func (w *world) withinLimits(pool *v1.NodePool, claims []*v1.NodeClaim, more corev1.ResourceList) bool {
	count := int64(1)
	cpu := more.Cpu().DeepCopy()
	for _, c := range claims {
		if c.Labels[v1.NodePoolLabelKey] == pool.Name && c.DeletionTimestamp == nil {
			count++
			cpu.Add(w.capacityOf(c)[corev1.ResourceCPU])
		}
	}
	if limit, ok := pool.Spec.Limits[v1.ResourceNodes]; ok && count > limit.Value() {
		return false
	}
	limit, ok := pool.Spec.Limits[corev1.ResourceCPU]
	return !ok || cpu.Cmp(limit) <= 0
}

// capacityOf returns the capacity of the claim's machine, from its node if there is one.
func (w *world) capacityOf(c *v1.NodeClaim) corev1.ResourceList {
	if node := w.laws.nodeOf(c); node != nil {
		return node.Status.Capacity
	}
	return c.Status.Capacity
}

// checkBudget: at most as many chosen nodes go at the same time as each budget allows.
func (l *laws) checkBudget(claim *v1.NodeClaim, claims []*v1.NodeClaim) {
	name := claim.Labels[v1.NodePoolLabelKey]
	pool := find[*v1.NodePool](l.w.api, "/"+name)
	if pool == nil {
		return
	}
	going := 0
	for _, c := range claims {
		if c.Labels[v1.NodePoolLabelKey] == name && l.chosen[c.UID] && !v1.IsTrue(c, v1.ConditionInstanceTerminating) {
			going++
		}
	}
	for _, b := range pool.Spec.Disruption.Budgets {
		if limit := budgetOf(b.Nodes, l.most[name]); going > limit {
			l.broken(lawBudgets, "%d nodes of pool %s are going, its budget is %s", going, name, b.Nodes)
		}
	}
}

func budgetOf(text string, total int) int {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	if percent {
		return int(math.Ceil(float64(n*total) / 100))
	}
	return n
}

// checkEmpty: a node was deleted as empty only after the task had listed its pods from the API server and found none.
func (l *laws) checkEmpty(claim *v1.NodeClaim) {
	c := v1.GetCondition(claim, v1.ConditionDisruptionReason)
	if c == nil || c.Reason != string(v1.Empty) || l.w.current == nil {
		return
	}
	name := ""
	for _, node := range all[*corev1.Node](l.w.api) { // the claim may not name its node yet
		if node.Spec.ProviderID == claim.Status.ProviderID {
			name = node.Name
		}
	}
	if name == "" {
		return
	}
	looked := l.w.current.listed[name]
	for _, pod := range all[*corev1.Pod](l.w.api) {
		if pod.Spec.NodeName == name && kube.IsReschedulable(pod) && (looked == 0 || l.w.kube.bound[pod.UID] <= looked) {
			l.broken(lawEmpty, "NodeClaim %s is deleted as empty, and pod %s runs on its node", claim.Name, pod.Name)
		}
	}
}

// replacementPatience is the time for which drifted and expired nodes wait for a replacement that is not ready.
const replacementPatience = 10 * time.Minute

// checkReplaced: if a removal has replacements, the node goes only when all of them are ready. A drifted or expired node with room elsewhere
// does not wait for a replacement that is gone or late.
func (l *laws) checkReplaced(claim *v1.NodeClaim) {
	var order struct {
		Reason       v1.DisruptionReason
		Replacements []string
	}
	if text := claim.Annotations[orderKey]; text == "" || json.Unmarshal([]byte(text), &order) != nil {
		return
	}
	for _, name := range order.Replacements {
		replacement := find[*v1.NodeClaim](l.w.api, "/"+name)
		if inPart := order.Reason == v1.Drifted || order.Reason == v1.Expired; inPart && (replacement == nil || replacement.DeletionTimestamp != nil ||
			l.w.clock.Since(replacement.CreationTimestamp.Time) >= replacementPatience) {
			continue
		}
		if replacement == nil || !v1.IsTrue(replacement, v1.ConditionInitialized) {
			l.broken(lawReplace, "NodeClaim %s is deleted, and its replacement %s is not ready", claim.Name, name)
		}
	}
}

// podChanged: the provisioner does not nominate a pod to a node that it sees leaving.
func (l *laws) podChanged(actor string, c change) {
	if c.old == nil || c.new == nil {
		return
	}
	if pod := c.new.(*corev1.Pod); pod.Status.Phase == corev1.PodRunning && c.old.(*corev1.Pod).Status.Phase != corev1.PodRunning {
		l.back(kube.WorkloadOf(pod))
	}
	if l.w.current == nil {
		return
	}
	to := c.new.(*corev1.Pod).Status.NominatedNodeName
	if to == "" || to == c.old.(*corev1.Pod).Status.NominatedNodeName || actor != provisioning {
		return
	}
	node := find[*corev1.Node](l.w.api, "/"+to)
	if node == nil || node.DeletionTimestamp == nil {
		return
	}
	if since := l.w.clock.Now().Sub(node.DeletionTimestamp.Time); since > l.w.scene.lag+taskLag {
		l.broken(lawGhost, "pod %s is nominated to node %s, which has been leaving for %s", c.new.GetName(), to, since)
	}
}

// launching checks a launch before it happens.
func (l *laws) launching(claim *v1.NodeClaim, class provider.Class) {
	l.launches++
	if l.w.calm && l.w.clock.Now().After(l.w.scene.until) {
		l.calmed++
		if most := launchesAtRest + 2*len(all[*corev1.Pod](l.w.api)); l.calmed > most {
			l.broken(lawLoop, "%d machines were started since nothing goes wrong any more", l.calmed)
		}
	}
	if !slices.Contains(claim.Finalizers, v1.TerminationFinalizer) {
		l.broken(lawFinalizer, "NodeClaim %s has no finalizer when its machine is started", claim.Name)
	}
	truth := find[*kwokv1alpha1.KWOKNodeClass](l.w.api, "/"+class.Ref.Name)
	if ready := v1.GetCondition(truth, v1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
		if since := l.w.clock.Since(ready.LastTransitionTime.Time); since > l.w.scene.lag+taskLag+time.Second {
			l.broken(lawClass, "the machine of NodeClaim %s is started with a class that has been broken for %s", claim.Name, since)
		}
	}
}

// terminating checks the end of a machine before it happens.
func (l *laws) terminating(actor string, id engine.MachineID) {
	now := l.w.clock.Now()
	boot, alive := l.w.cloud.Boot(id)
	if !alive {
		return
	}
	var leaves *metav1.Time // the deletion time of its claim
	for _, claim := range all[*v1.NodeClaim](l.w.api) {
		text := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]
		if claim.Status.ProviderID == string(id) {
			leaves = claim.DeletionTimestamp
		}
		if claim.Status.ProviderID == string(id) && text != "" && text <= now.UTC().Format("2006-01-02T15:04:05Z07:00") {
			return // its termination time has come
		}
		if (claim.Status.ProviderID == string(id) || boot.ClaimUID == string(claim.UID)) && v1.IsTrue(claim, v1.ConditionInstanceTerminating) {
			return // it was stopped before
		}
	}
	for _, node := range all[*corev1.Node](l.w.api) {
		if node.Spec.ProviderID != string(id) || leaves != nil && !node.CreationTimestamp.Before(leaves) {
			continue // not this machine's, or made again by a restarted kubelet
		}
		for _, pod := range all[*corev1.Pod](l.w.api) {
			if pod.Spec.NodeName == node.Name && kube.IsDrainable(pod, now) && !kube.IsTerminal(pod) {
				l.broken(lawTerminate, "machine %s is stopped by %s, and pod %s is on it", id, actor, pod.Name)
			}
		}
	}
}

// evicting checks an eviction before it happens.
func (l *laws) evicting(actor string, pod *corev1.Pod) {
	before := l.w.clock.Now().Add(-l.w.scene.lag - taskLag)
	var seen *corev1.Pod
	for _, c := range l.w.api.shelfOf(pod).log {
		if c.new != nil && c.new.GetUID() == pod.UID && c.at.Before(before) {
			seen = c.new.(*corev1.Pod)
		}
	}
	if seen != nil && kube.ProtectionOf(seen, l.w.clock.Now()).Active && kube.ProtectionOf(pod, l.w.clock.Now()).Active {
		l.broken(lawProtected, "%s evicts pod %s, which has long been protected", actor, pod.Name)
	}
}

// evicted checks lawHalf when a running pod is evicted. At most half of a workload's pods, rounded up, may be away because of consolidation,
// drift or expiry. A pod is away until another pod of the workload starts to run, or until the workload is scaled.
func (l *laws) evicted(pod *corev1.Pod) {
	claims := all[*v1.NodeClaim](l.w.api)
	i := slices.IndexFunc(claims, func(c *v1.NodeClaim) bool { return c.Status.NodeName == pod.Spec.NodeName })
	owner := kube.WorkloadOf(pod)
	if replicas := l.replicas(owner); replicas > 0 && i >= 0 && lifecycle.ByChoice(claims[i], nil) {
		if l.away[owner]++; l.away[owner] > (replicas+1)/2 {
			l.broken(lawHalf, "%d of %d pods of %s are away, because pod %s of node %s was evicted too", l.away[owner], replicas,
				pod.OwnerReferences[0].Name, pod.Name, pod.Spec.NodeName)
		}
	}
}

// back ends the count of one pod that was away.
func (l *laws) back(owner types.UID) {
	if l.away[owner]--; l.away[owner] <= 0 {
		delete(l.away, owner)
	}
}

// replicas returns the largest spec.replicas of the ReplicaSet or StatefulSet that a cache may still show, 0 for other owners.
func (l *laws) replicas(owner types.UID) int {
	seen, most := l.w.clock.Now().Add(-l.w.scene.lag-taskLag), 0
	for _, shelf := range l.w.api.order {
		for _, c := range shelf.log {
			switch {
			case c.object().GetUID() != owner:
			case c.at.Before(seen):
				most = replicasOf(c.new)
			default:
				most = max(most, replicasOf(c.new))
			}
		}
	}
	return most
}

// replicasOf returns the number of pods that a ReplicaSet or a StatefulSet wants. It returns 0 for other objects.
func replicasOf(o client.Object) int {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return int(*o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	}
	return 0
}

// check checks all machines after a step.
func (l *laws) check() {
	if l.violation != nil {
		return
	}
	boots := l.w.cloud.Boots()
	for i, boot := range boots {
		uid, _, _ := strings.Cut(boot.ClaimUID, "#")
		for _, other := range boots[:i] {
			if theirs, _, _ := strings.Cut(other.ClaimUID, "#"); theirs == uid {
				l.broken(lawOneMachine, "machines %s and %s both run for claim %s", other.ID, boot.ID, uid)
			}
		}
	}
}
