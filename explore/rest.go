package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
	"tenon.sh/report"
)

// The laws about the end of a run.
const (
	lawRest    = "everything comes to rest"
	lawMachine = "machines are those of claims"
	lawDrain   = "every drain ends or says why not"
	lawPending = "every pending pod has a place or a reason"
	lawTaint   = "no node stays marked for nothing"
	lawLoops   = "no loop keeps failing"
	lawIdle    = "empty nodes go or say why not"
	lawWait    = "nobody waits for a node that is not there"
	lawSize    = "a pool of fixed size has that size"
)

// patient is the longest time until a machine registers or is given up.
const patient = 16 * time.Minute

// enough is the longest time until sold out offerings are tried again, or until a late machine is given up because its node never registers a
// resource (15 minutes, inventory.ResourcePatience).
const enough = patient + 15*time.Minute + 4*time.Minute

// withDrivers is the same time if pods claim devices. It is longer because the autoscaler waits for drivers, and remembers for a while that
// they published too little.
const withDrivers = 50 * time.Minute

// rested reports whether nothing happens any more, and nothing remains to be done.
func (w *world) rested() bool {
	p := w.p
	if p.dead || len(p.tasks) > 0 || w.clock.Since(w.busied) < restful {
		return false
	}
	for _, v := range p.order {
		if v.behind() > 0 {
			return false
		}
	}
	law, _ := w.laws.left()
	most := enough
	if w.scene.claims {
		most = withDrivers
	}
	return law == "" || w.clock.Since(w.quietSince) > most
}

// unrest returns why the changes of a run do not end.
func (w *world) unrest() string {
	if law, what := w.laws.left(); law != "" {
		return law + ": " + what
	}
	return fmt.Sprintf("something is written again and again, the last time after %s", w.busied.Sub(w.began))
}

// atRest checks the state at the end.
func (l *laws) atRest() {
	if l.violation != nil {
		return
	}
	if law, what := l.left(); law != "" {
		l.broken(law, "%s", what)
	}
}

// left returns the first law that the state breaks at the end.
func (l *laws) left() (law, what string) {
	for _, find := range []func() (string, string){l.machines, l.drains, l.pending, l.marks, l.loops, l.idle, l.size} {
		if law, what = find(); law != "" {
			return law, what
		}
	}
	return "", ""
}

func (l *laws) machines() (string, string) {
	claims := map[string]*v1.NodeClaim{}
	for _, c := range all[*v1.NodeClaim](l.w.api) {
		claims[string(c.UID)] = c
	}
	alive := map[string]bool{}
	for _, boot := range l.w.cloud.Boots() {
		uid, _, _ := strings.Cut(boot.ClaimUID, "#")
		alive[uid] = true
		if claims[uid] == nil {
			return lawMachine, fmt.Sprintf("machine %s runs for claim %s, which does not exist", boot.ID, uid)
		}
	}
	for _, uid := range sortedKeys(claims) {
		c := claims[uid]
		switch {
		case c.DeletionTimestamp != nil:
		case !alive[uid]:
			return lawMachine, fmt.Sprintf("NodeClaim %s has no machine: %s", c.Name, about(c))
		case !v1.IsTrue(c, v1.ConditionRegistered) && l.w.clock.Since(c.CreationTimestamp.Time) > patient:
			return lawMachine, fmt.Sprintf("NodeClaim %s has not registered: %s", c.Name, about(c))
		}
	}
	return "", ""
}

// told reports whether there is an event about the object with one of the reasons.
func (l *laws) told(uid types.UID, reasons ...string) bool {
	for _, e := range all[*corev1.Event](l.w.api) {
		for _, reason := range reasons {
			if e.InvolvedObject.UID == uid && e.Reason == reason {
				return true
			}
		}
	}
	return false
}

// nodeOf finds the node of a claim's machine, even if the claim does not name it yet.
func (l *laws) nodeOf(c *v1.NodeClaim) *corev1.Node {
	for _, node := range all[*corev1.Node](l.w.api) {
		if node.Spec.ProviderID != "" && node.Spec.ProviderID == c.Status.ProviderID {
			return node
		}
	}
	return nil
}

func (l *laws) drains() (string, string) {
	for _, c := range all[*v1.NodeClaim](l.w.api) {
		if c.DeletionTimestamp == nil {
			continue
		}
		node := l.nodeOf(c)
		if node == nil {
			return lawDrain, fmt.Sprintf("NodeClaim %s is being deleted, has no node, and stays: %s", c.Name, about(c))
		}
		if !l.told(node.UID, report.FailedDraining) {
			return lawDrain, fmt.Sprintf("node %s does not leave, and nobody says why: %s", node.Name, about(c))
		}
	}
	for _, n := range all[*corev1.Node](l.w.api) {
		if n.DeletionTimestamp != nil && !l.told(n.UID, report.FailedDraining) {
			return lawDrain, fmt.Sprintf("node %s does not leave, and nobody says why: %s", n.Name, about(n))
		}
	}
	return "", ""
}

func (l *laws) pending() (string, string) {
	for _, pod := range all[*corev1.Pod](l.w.api) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		if to := pod.Status.NominatedNodeName; to != "" && find[*corev1.Node](l.w.api, "/"+to) == nil {
			return lawWait, fmt.Sprintf("pod %s is nominated to node %s", pod.Name, to)
		}
		if !l.told(pod.UID, report.FailedScheduling) && !l.underWay(pod.UID) {
			return lawPending, fmt.Sprintf("pod %s waits: %s", pod.Name, about(pod))
		}
	}
	return "", ""
}

// underWay reports whether an event names a place for the pod, and a machine may still come.
func (l *laws) underWay(pod types.UID) bool {
	return l.told(pod, report.Nominated) && slices.ContainsFunc(all[*v1.NodeClaim](l.w.api), func(c *v1.NodeClaim) bool {
		return c.DeletionTimestamp == nil && !v1.IsTrue(c, v1.ConditionRegistered) && l.w.clock.Since(c.CreationTimestamp.Time) < patient
	})
}

func (l *laws) marks() (string, string) {
	for _, c := range all[*v1.NodeClaim](l.w.api) {
		node := find[*corev1.Node](l.w.api, "/"+c.Status.NodeName)
		if c.DeletionTimestamp != nil || node == nil || node.DeletionTimestamp != nil {
			continue
		}
		for _, t := range node.Spec.Taints {
			if t.Key == v1.DisruptedTaintKey {
				return lawTaint, fmt.Sprintf("node %s carries %s", node.Name, t.Key)
			}
		}
		if v1.GetCondition(c, v1.ConditionDisruptionReason) != nil {
			return lawTaint, fmt.Sprintf("NodeClaim %s says that it is disrupted", c.Name)
		}
	}
	return "", ""
}

func (l *laws) loops() (string, string) {
	for _, loop := range l.w.p.loops {
		if loop.err != nil {
			return lawLoops, fmt.Sprintf("%s: %v", loop.Name, loop.err)
		}
	}
	return "", ""
}

// idle: nodes without pods that would have to move are removed. In pools with nodes that are unready or leave, budgets may be exhausted, so
// these pools are not checked. In runs with buffers, nothing is needed at the end, and no reason to keep a node counts.
func (l *laws) idle() (string, string) {
	stuck, busy := map[string]bool{}, map[string]bool{}
	for _, n := range all[*corev1.Node](l.w.api) {
		if n.DeletionTimestamp != nil || !isReady(n) {
			stuck[n.Labels[v1.NodePoolLabelKey]] = true
		}
	}
	for _, pod := range all[*corev1.Pod](l.w.api) {
		if pod.Spec.NodeName == "" {
			return "", ""
		}
		if kube.IsReschedulable(pod) || !kube.OwnedByDaemonSet(pod) {
			busy[pod.Spec.NodeName] = true
		}
	}
	for _, c := range all[*v1.NodeClaim](l.w.api) {
		pool := c.Labels[v1.NodePoolLabelKey]
		if pool == fixedPool {
			continue
		}
		if c.DeletionTimestamp == nil && v1.IsTrue(c, v1.ConditionInitialized) && !busy[c.Status.NodeName] && !stuck[pool] && find[*v1.NodePool](l.w.api, "/"+pool) != nil && (l.w.opt.Buffers || !l.told(c.UID, report.DisruptionBlocked)) {
			return lawIdle, fmt.Sprintf("node %s runs nothing", c.Status.NodeName)
		}
	}
	return "", ""
}

// size: a pool with replicas has as many machines, unless its limits forbid them.
func (l *laws) size() (string, string) {
	pool := find[*v1.NodePool](l.w.api, "/"+fixedPool)
	if pool == nil || pool.DeletionTimestamp != nil {
		return "", ""
	}
	n := 0
	for _, c := range all[*v1.NodeClaim](l.w.api) {
		if c.Labels[v1.NodePoolLabelKey] == fixedPool && c.DeletionTimestamp == nil {
			n++
		}
	}
	if want := int(*pool.Spec.Replicas); n > want || n < want && len(pool.Spec.Limits) == 0 {
		return lawSize, fmt.Sprintf("pool %s has %d machines, want %d", fixedPool, n, want)
	}
	return "", ""
}
