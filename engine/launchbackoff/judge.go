package launchbackoff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Judge compares machines with the pods that they were started for.
type Judge struct {
	Snapshot    *engine.Snapshot
	Pods        *inventory.PodIndex
	Machines    []*inventory.Machine
	Constraints *constraints.Reader
	Gangs       *gang.Gangs // nil for none
	Options     engine.Options
}

// Read reads the failures that are recorded on the pools, and adds those of machines that are there and do not take their pods.
func (j *Judge) Read() *constraints.LaunchBackoffs {
	s, cache := j.Snapshot, j.Pods.Cache
	pools := make(map[string]*constraints.LaunchBackoff, len(s.NodePools))
	for _, pool := range s.NodePools {
		pools[pool.Name] = &constraints.LaunchBackoff{Failures: constraints.LaunchFailures(s, pool)}
	}
	unbound := map[string]*corev1.Pod{}
	for _, pod := range j.Pods.Unbound {
		if kube.IsPending(pod) && !kube.OwnedByDaemonSet(pod) {
			unbound[string(pod.UID)] = pod
		}
	}
	out := &constraints.LaunchBackoffs{ByShape: map[string]*constraints.ShapeBackoff{}, Unfit: map[*corev1.Pod]*inventory.MachineInfo{}, Unwritten: map[*inventory.MachineInfo]*corev1.Pod{}, Dear: map[*corev1.Pod]*constraints.ShapeBackoff{}}
	found, published := map[string][]engine.LaunchFinding{}, j.published()
	for _, h := range j.Machines {
		b := pools[h.Pool()]
		absent := neverJoined(h, s.Now)
		if b == nil || !absent && !shows(h, s.Now) {
			continue
		}
		b.Correct(h, cache)
		b.CorrectDrivers(h, published)
		var finding engine.LaunchFinding
		for _, uid := range h.Planned {
			pod := unbound[uid]
			if pod == nil {
				continue
			}
			f := cache.InfoOf(pod)
			shape, why := constraints.ShapeOf(cache, f), ""
			if absent {
				why = fmt.Sprintf("machine %s (%s) was started for such a pod and has not joined the cluster within %s: its log, user data, image, role and network tell why",
					h.Claim.Name, h.Labels[corev1.LabelInstanceTypeStable], inventory.RegistrationTimeout)
			} else if driver := j.silent(h, f, published); driver != "" {
				why, shape = driverless(h, driver, published), constraints.DriverShape(driver)
			} else {
				why = j.unfit(h, f)
			}
			if why == "" && j.Pods.Held(pod) {
				why = fmt.Sprintf("machine %s was started for pods of group %s, and not enough others could be had", h.Claim.Name, j.Gangs.Of(pod).Name())
			}
			if why == "" {
				continue
			}
			out.Unfit[pod] = h.MachineInfo
			if b.Note(h, shape, why, s.Now) {
				out.Unwritten[h.MachineInfo] = pod
				finding.Pods, finding.Why = append(finding.Pods, kube.PodID(pod)), why
			}
		}
		if finding.Pods != nil {
			finding.Claim = h.Claim
			found[h.Pool()] = append(found[h.Pool()], finding)
		}
	}
	out.Refused = j.addRefused(func(h *inventory.Machine, pod *corev1.Pod, why string) {
		b := pools[h.Pool()]
		if b == nil || !b.Note(h, constraints.ShapeOf(cache, cache.InfoOf(pod)), why, s.Now) {
			return
		}
		out.Unwritten[h.MachineInfo] = pod
		found[h.Pool()] = append(found[h.Pool()], engine.LaunchFinding{Claim: h.Claim, Pods: []engine.PodID{kube.PodID(pod)}, Why: why})
	})
	for _, pool := range s.NodePools {
		b := pools[pool.Name]
		b.Bound()
		for i := range b.Failures {
			out.Add(pool.Name, &b.Failures[i], s.Now)
		}
		if text := b.Text(s, pool); text != pool.Annotations[v1.LaunchBackoffAnnotationKey] {
			out.Changes = append(out.Changes, engine.BackoffChange{NodePool: pool.Name, Text: text, Found: found[pool.Name]})
		}
	}
	slices.SortFunc(out.Changes, func(a, b engine.BackoffChange) int { return strings.Compare(a.NodePool, b.NodePool) })
	return out
}

// neverJoined reports whether the machine goes because it has not joined the cluster in time.
func neverJoined(h *inventory.Machine, now time.Time) bool {
	return h.Goes && h.Node == nil && len(h.Planned) > 0 && v1.IsTrue(h.Claim, v1.ConditionLaunched) && !kube.HasJoined(h.Claim) &&
		now.Sub(inventory.WaitingSince(h.Claim, v1.ConditionRegistered)) >= inventory.RegistrationTimeout
}

// shows reports whether the machine shows how much it has: its node is registered, and has been ready for not too long.
func shows(h *inventory.Machine, now time.Time) bool {
	if h.Arrived.Known && now.Sub(h.Arrived.At) >= constraints.LaunchJudged { // the claim may say it a moment later than the node
		return false
	}
	return len(h.Planned) > 0 && h.IsRegistered() && !h.Goes
}

// showsAll reports whether it shows all else too: it is ready, or has been so for long enough to miss what it does not have, and
// nothing that passes keeps pods off.
func showsAll(h *inventory.Machine) bool {
	return (h.IsInitialized() || h.Misses) && h.Ready && !slices.ContainsFunc(h.Taints, kube.SaysState)
}

// unfit says why the machine, which was started for the pod, cannot run it, whatever other pods are there; empty if it could.
func (j *Judge) unfit(h *inventory.Machine, f *inventory.PodInfo) string {
	subject := fmt.Sprintf("machine %s (%s) was started for such a pod and cannot run it: ", h.Claim.Name, h.Labels[corev1.LabelInstanceTypeStable])
	need := j.Pods.Cache.RequestsFor(f).List
	taken := need.DeepCopy()
	for _, pod := range h.Bound {
		if kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) {
			kube.AddList(taken, j.Pods.Cache.RequestsOf(pod).List)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		all, have := taken[name], h.Usable()[name]
		if q := need[name]; q.Sign() > 0 && all.Cmp(have) > 0 {
			promised := h.Claim.Status.Allocatable[name]
			return subject + fmt.Sprintf("its node has %s %s for pods instead of %s, and with the DaemonSets' pods %s are asked for", have.String(), name, promised.String(), all.String())
		}
	}
	if text := stuck(h); text != "" {
		return subject + text
	}
	if !showsAll(h) {
		return ""
	}
	w := j.Constraints.OfInfo(f)
	if t := kube.Untolerated(w.Tolerations, h.Taints); t != nil {
		if h.AwaitsTaints(j.Snapshot.Now) {
			return "" // an agent may take the taint off
		}
		return subject + fmt.Sprintf("its node has the taint %s, which the pool does not name; name it under startupTaints if it goes by itself, under taints if it stays", kube.TaintText(*t))
	}
	if text := mislabelled(h, w); text != "" {
		return subject + "its node has " + text
	}
	if text := j.Constraints.Volumes.TooSmall(f.Pod, h.Name()); text != "" {
		return subject + text
	}
	if text := j.unattachable(h, w); text != "" {
		return subject + text
	}
	if !j.Constraints.Claims.Has(&w.Devices, h.Node) {
		return subject + "the devices that its drivers have published do not serve the pod's claims"
	}
	for _, pod := range h.Bound {
		if !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod) {
			continue
		}
		for _, held := range kube.HostPortsOf(&pod.Spec) {
			if slices.ContainsFunc(w.Ports, held.Collides) {
				return subject + fmt.Sprintf("pod %s of its node holds the port %s", kube.PodID(pod), kube.PortText(held))
			}
		}
	}
	return ""
}

// stuck says which startup taint is still on the overdue machine's node, empty for none: its agent has not taken it off.
func stuck(h *inventory.Machine) string {
	if !h.Overdue || !h.Ready {
		return ""
	}
	for _, t := range h.Node.Spec.Taints {
		if kube.IsStartupTaint(h.Claim, t) || kube.IsEphemeralTaint(t) {
			return fmt.Sprintf("its node has not lost the taint %s in time: see whether the agent that takes it off runs there", kube.TaintText(t))
		}
	}
	return ""
}

// mislabelled says which label that matters to pods with the constraints the machine has other than was planned.
func mislabelled(h *inventory.Machine, w *constraints.PodConstraints) string {
	keys := map[string]bool{}
	for _, term := range w.Told {
		for _, e := range term {
			keys[e.Key] = true
		}
	}
	for _, spread := range w.Spreads {
		keys[spread.Key] = true
	}
	for _, t := range slices.Concat(w.Affinity, w.Anti) {
		keys[t.Key] = true
	}
	for _, key := range kube.SortedKeys(keys) {
		want, promised := h.Claim.Labels[key]
		if have, there := h.Label(key); promised && (!there || have != want) {
			return fmt.Sprintf("label %s=%s instead of %s", key, cmp.Or(have, "(none)"), want)
		}
	}
	return ""
}

// unattachable says for which driver the machine takes fewer volumes than pods with the constraints have.
func (j *Judge) unattachable(h *inventory.Machine, w *constraints.PodConstraints) string {
	count := map[string]int{}
	for _, a := range w.Volumes.Attach {
		count[a.Driver]++
	}
	limits := j.Constraints.Volumes.LimitsOf(h.Name(), nil)
	for _, driver := range slices.Sorted(maps.Keys(count)) {
		if limit, known := limits[driver]; known && limit < count[driver] {
			return fmt.Sprintf("its driver %s takes %s, the pod has %d", driver, engine.Plural(limit, "volume"), count[driver])
		}
	}
	return ""
}
