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
	"tenon.sh/engine/dra"
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

// Read reads the failures that are recorded on the pools, and adds the failures of machines that are there and do not take their pods.
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
	for _, m := range j.Machines {
		b := pools[m.Pool()]
		if b == nil || !neverJoined(m, s.Now) && !shows(m, s.Now) {
			continue
		}
		b.Correct(m, cache)
		b.CorrectDrivers(m, published)
		finding := engine.LaunchFinding{Claim: m.Claim}
		for _, uid := range m.Planned {
			pod := unbound[uid]
			if pod == nil {
				continue
			}
			shape, why := j.whyUnfit(m, pod, published)
			if why == "" {
				continue
			}
			out.Unfit[pod] = m.MachineInfo
			if b.Note(m, shape, why, s.Now) {
				out.Unwritten[m.MachineInfo] = pod
				finding.Pods, finding.Why = append(finding.Pods, kube.PodID(pod)), why
			}
		}
		if finding.Pods != nil {
			found[m.Pool()] = append(found[m.Pool()], finding)
		}
	}
	out.Refused = j.addRefused(func(m *inventory.Machine, pod *corev1.Pod, why string) {
		b := pools[m.Pool()]
		if b == nil || !b.Note(m, constraints.ShapeOf(cache, cache.InfoOf(pod)), why, s.Now) {
			return
		}
		out.Unwritten[m.MachineInfo] = pod
		found[m.Pool()] = append(found[m.Pool()], engine.LaunchFinding{Claim: m.Claim, Pods: []engine.PodID{kube.PodID(pod)}, Why: why})
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

// whyUnfit returns why the machine does not take a pod for which it was started, and the shape of the pods for which that counts. It returns "" if the
// machine takes the pod.
func (j *Judge) whyUnfit(m *inventory.Machine, pod *corev1.Pod, published *dra.Published) (shape, why string) {
	info := j.Pods.Cache.InfoOf(pod)
	shape = constraints.ShapeOf(j.Pods.Cache, info)
	if neverJoined(m, j.Snapshot.Now) {
		why = fmt.Sprintf("machine %s (%s) was started for such a pod and has not joined the cluster within %s: its log, user data, image, role and network tell why",
			m.Claim.Name, m.Labels[corev1.LabelInstanceTypeStable], inventory.RegistrationTimeout)
	} else if driver := j.silent(m, info, published); driver != "" {
		why, shape = driverless(m, driver, published), constraints.DriverShape(driver)
	} else {
		why = j.unfit(m, info)
	}
	if why == "" && j.Pods.Held(pod) {
		why = fmt.Sprintf("machine %s was started for pods of group %s, and not enough others could be had", m.Claim.Name, j.Gangs.Of(pod).Name())
	}
	return shape, why
}

// neverJoined reports whether the machine is removed because it has not joined the cluster in time.
func neverJoined(m *inventory.Machine, now time.Time) bool {
	return m.Goes && m.Node == nil && len(m.Planned) > 0 && v1.IsTrue(m.Claim, v1.ConditionLaunched) && !kube.HasJoined(m.Claim) &&
		now.Sub(inventory.WaitingSince(m.Claim, v1.ConditionRegistered)) >= inventory.RegistrationTimeout
}

// shows reports whether the machine's amounts of resources are known and recent: its node is registered, and did not become ready too long ago.
func shows(m *inventory.Machine, now time.Time) bool {
	if m.Arrived.Known && now.Sub(m.Arrived.At) >= constraints.LaunchJudged { // the claim's condition may be later than the node's
		return false
	}
	return len(m.Planned) > 0 && m.IsRegistered() && !m.Goes
}

// showsAll reports whether the machine's other properties are known too. It is initialized, or has been ready for so long that the rest is
// missing. No taint of a passing state is on it.
func showsAll(m *inventory.Machine) bool {
	return (m.IsInitialized() || m.Misses) && m.Ready && !slices.ContainsFunc(m.Taints, kube.SaysState)
}

// unfit returns why the machine cannot run the pod for which it was started, even without other pods. It returns "" if the machine can run this
// pod.
func (j *Judge) unfit(m *inventory.Machine, info *inventory.PodInfo) string {
	subject := fmt.Sprintf("machine %s (%s) was started for such a pod and cannot run it: ", m.Claim.Name, m.Labels[corev1.LabelInstanceTypeStable])
	need := j.Pods.Cache.RequestsFor(info).List
	taken := need.DeepCopy()
	for _, pod := range m.Bound {
		if kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) {
			kube.AddList(taken, j.Pods.Cache.RequestsOf(pod).List)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		all, have := taken[name], m.Usable()[name]
		if q := need[name]; q.Sign() > 0 && all.Cmp(have) > 0 {
			promised := m.Claim.Status.Allocatable[name]
			return subject + fmt.Sprintf("its node has %s %s for pods instead of %s, and with the DaemonSets' pods %s are asked for", have.String(), name, promised.String(), all.String())
		}
	}
	if text := stuck(m); text != "" {
		return subject + text
	}
	if !showsAll(m) {
		return ""
	}
	c := j.Constraints.OfInfo(info)
	if t := kube.Untolerated(c.Tolerations, m.Taints); t != nil {
		if m.AwaitsTaints(j.Snapshot.Now) {
			return "" // an agent may take the taint off
		}
		return subject + fmt.Sprintf("its node has the taint %s, which the pool does not name; name it under startupTaints if it goes by itself, under taints if it stays", kube.TaintText(*t))
	}
	if text := mislabelled(m, c); text != "" {
		return subject + "its node has " + text
	}
	if text := j.Constraints.Volumes.TooSmall(info.Pod, m.Name()); text != "" {
		return subject + text
	}
	if text := j.unattachable(m, c); text != "" {
		return subject + text
	}
	if !j.Constraints.Claims.Has(&c.Devices, m.Node) {
		return subject + "the devices that its drivers have published do not serve the pod's claims"
	}
	for _, pod := range m.Bound {
		if !kube.OwnedByDaemonSet(pod) && !kube.IsMirror(pod) {
			continue
		}
		for _, held := range kube.HostPortsOf(&pod.Spec) {
			if slices.ContainsFunc(c.Ports, held.Collides) {
				return subject + fmt.Sprintf("pod %s of its node holds the port %s", kube.PodID(pod), kube.PortText(held))
			}
		}
	}
	return ""
}

// stuck names the startup taint that the overdue machine's node still has, because the taint's agent has not removed it. It is empty if there is
// none.
func stuck(m *inventory.Machine) string {
	if !m.Overdue || !m.Ready {
		return ""
	}
	for _, t := range m.Node.Spec.Taints {
		if kube.IsStartupTaint(m.Claim, t) || kube.IsEphemeralTaint(t) {
			return fmt.Sprintf("its node has not lost the taint %s in time: see whether the agent that takes it off runs there", kube.TaintText(t))
		}
	}
	return ""
}

// mislabelled describes a label that matters for pods with the constraints, and whose value on the machine differs from the planned one.
func mislabelled(m *inventory.Machine, c *constraints.PodConstraints) string {
	keys := map[string]bool{}
	for _, term := range c.Told {
		for _, e := range term {
			keys[e.Key] = true
		}
	}
	for _, spread := range c.Spreads {
		keys[spread.Key] = true
	}
	for _, t := range slices.Concat(c.Affinity, c.Anti) {
		keys[t.Key] = true
	}
	for _, key := range kube.SortedKeys(keys) {
		want, promised := m.Claim.Labels[key]
		if have, there := m.Label(key); promised && (!there || have != want) {
			return fmt.Sprintf("label %s=%s instead of %s", key, cmp.Or(have, "(none)"), want)
		}
	}
	return ""
}

// unattachable names the driver for which the machine takes fewer volumes than pods with the constraints have.
func (j *Judge) unattachable(m *inventory.Machine, c *constraints.PodConstraints) string {
	count := map[string]int{}
	for _, a := range c.Volumes.Attach {
		count[a.Driver]++
	}
	limits := j.Constraints.Volumes.LimitsOf(m.Name(), nil)
	for _, driver := range slices.Sorted(maps.Keys(count)) {
		if limit, known := limits[driver]; known && limit < count[driver] {
			return fmt.Sprintf("its driver %s takes %s, the pod has %d", driver, engine.Plural(limit, "volume"), count[driver])
		}
	}
	return ""
}
