package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
)

// A machine may turn out to be another one than was planned: something taints it, its volume driver takes fewer volumes, it has less
// memory or other labels. The pods that it was started for do not run there, it goes because it is empty, and the next one would be
// the same. What did not take its pods is therefore written down on the pool, where it outlives the node: such pods get another
// instance type, and the same one again only after a wait that doubles each time.

const (
	launchBackoffFirst = time.Minute
	launchBackoffMost  = time.Hour
	// launchBackoffMemory is how long after the last machine that did not take its pods others are a failure in the same row.
	launchBackoffMemory = 24 * time.Hour
	// launchJudged is for how long after it was ready a machine can turn out not to take its pods.
	launchJudged = 10 * time.Minute
	// mostShapes and mostTypes bound what is written on one pool.
	mostShapes, mostTypes = 32, 64
)

// LaunchFailure is what is known of a pool's machines that did not take the pods of one shape.
type LaunchFailure struct {
	// Shape stands for what the pods ask for.
	Shape string `json:"shape"`
	// InstanceTypes lists those that did not take them.
	InstanceTypes []string `json:"instanceTypes"`
	// Count is how many times in a row machines were started in vain, Last when that was last found out, Why what kept the pods off.
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
}

// until is when machines of the types that did not take the pods may be started for them again.
func (f *LaunchFailure) until() time.Time {
	return f.Last.Add(doubled(launchBackoffFirst, launchBackoffMost, f.Count))
}

// closed is until when no machine at all is started for the pods. After the first failure another type can be tried at once.
func (f *LaunchFailure) closed() time.Time {
	if f.Count < 2 {
		return time.Time{}
	}
	return f.Last.Add(doubled(launchBackoffFirst, launchBackoffMost, f.Count-1))
}

// Message says the failure to people.
func (f *LaunchFailure) Message() string {
	return fmt.Sprintf("%s; that was so %s in a row, and such a machine is started for such a pod again after %s", f.Why, plural(f.Count, "time"), clockText(f.until()))
}

// launchBackoff is what is written on a pool about machines that did not take their pods.
type launchBackoff struct {
	// For stands for the pool's template and its class: what was learned of other machines does not count.
	For      string          `json:"for"`
	Failures []LaunchFailure `json:"failures"`
}

// LaunchFailures reads what is written on the pool and still counts: nothing where it cannot be read.
func LaunchFailures(s *Snapshot, pool *v1.NodePool) []LaunchFailure {
	var written launchBackoff
	text := pool.Annotations[v1.LaunchBackoffAnnotationKey]
	if text == "" || json.Unmarshal([]byte(text), &written) != nil || written.For != machinesOf(s, pool) {
		return nil
	}
	return slices.DeleteFunc(written.Failures, func(f LaunchFailure) bool {
		age := s.Now.Sub(f.Last)
		return f.Count < 1 || age >= launchBackoffMemory || age < -launchBackoffMost // a clock may be wrong, but not for ever
	})
}

// text is what to write on the pool, empty for nothing.
func (b *launchBackoff) text(s *Snapshot, pool *v1.NodePool) string {
	if len(b.Failures) == 0 {
		return ""
	}
	b.For = machinesOf(s, pool)
	return asJSON(b)
}

// machinesOf stands for what machines the pool starts: its template, and what its class wants them to be.
func machinesOf(s *Snapshot, pool *v1.NodePool) string {
	sum := fnv.New64a()
	sum.Write([]byte(pool.Hash()))
	if class := findClass(s, pool.Spec.Template.Spec.NodeClassRef); class != nil {
		for _, t := range class.Traits {
			fmt.Fprintf(sum, "\n%q %q %q", t.Key, t.Accepts, t.Types)
		}
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// LaunchFinding is a machine that does not take pods that it was started for.
type LaunchFinding struct {
	Claim *v1.NodeClaim
	Pods  []PodID
	Why   string
}

// BackoffChange is what a plan wants written on a pool about machines that did not take their pods; an empty Text removes what is
// there. Found lists those that were found out now.
type BackoffChange struct {
	NodePool string
	Text     string
	Found    []LaunchFinding
}

// shapeBackoff is what keeps pools from starting machines for pods: those of one shape that did not take such pods, and, for pods that
// wait for something cheaper, those that are too dear.
type shapeBackoff struct {
	shape  string
	byPool map[string]*LaunchFailure
	retry  bool // the wait of some pool is over
	// most is up to what price an hour pools start machines for the pods now, dear what to say of dearer ones; pools that are not
	// there start any.
	most map[string]float64
	dear map[string]Reason
}

// launchBackoffs is what a snapshot tells of machines that did not take their pods.
type launchBackoffs struct {
	byShape map[string]*shapeBackoff
	changes []BackoffChange
	unfit   map[*corev1.Pod]*machine // the one that was started for the pod and cannot run it
	// dear are the pods that wait until there are cheaper machines, or until they have waited long enough for dear ones.
	dear map[*corev1.Pod]*shapeBackoff
	// unwritten holds the machines that show what no pool remembers yet, with one of the pods: they stay until it does.
	unwritten map[*machine]*corev1.Pod
}

// knownBackoffs are those that the first compilation of a call has read: the call's others share them.
type knownBackoffs struct {
	pass uint64
	*launchBackoffs
}

type wishBackoff struct {
	wish    *wish
	backoff *shapeBackoff
}

// shapeOf stands for what the pod asks for: pods of the same namespace that ask for the same have the same one.
func (m *Memo) shapeOf(f *podFacts) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%q %q %q", f.pod.Namespace, m.needFor(f).text, m.askOf(f).text)
	for i := range f.pod.Spec.Volumes {
		if v := &f.pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			sum.Write([]byte{'v'})
		}
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// readBackoffs reads what the pools remember, and adds what their machines show.
func (p *problem) readBackoffs() *launchBackoffs {
	s, memo := p.snapshot, p.census.memo
	pools := make(map[string]*launchBackoff, len(s.NodePools))
	for _, pool := range s.NodePools {
		pools[pool.Name] = &launchBackoff{Failures: LaunchFailures(s, pool)}
	}
	unbound := map[string]*corev1.Pod{}
	for _, pod := range p.census.unbound {
		if IsPending(pod) && !OwnedByDaemonSet(pod) {
			unbound[string(pod.UID)] = pod
		}
	}
	out := &launchBackoffs{byShape: map[string]*shapeBackoff{}, unfit: map[*corev1.Pod]*machine{}, unwritten: map[*machine]*corev1.Pod{}, dear: map[*corev1.Pod]*shapeBackoff{}}
	found := map[string][]LaunchFinding{}
	for _, h := range p.hosts {
		b := pools[h.pool()]
		if b == nil || !h.shows(s.Now) {
			continue
		}
		b.correct(h, memo)
		var finding LaunchFinding
		for _, uid := range h.planned {
			pod := unbound[uid]
			if pod == nil {
				continue
			}
			f := memo.factsOf(pod)
			why := p.unfit(h, f)
			if why == "" {
				continue
			}
			out.unfit[pod] = h.machine
			if b.note(h, memo.shapeOf(f), why, s.Now) {
				out.unwritten[h.machine] = pod
				finding.Pods, finding.Why = append(finding.Pods, podID(pod)), why
			}
		}
		if finding.Pods != nil {
			finding.Claim = h.claim
			found[h.pool()] = append(found[h.pool()], finding)
		}
	}
	for _, pool := range s.NodePools {
		b := pools[pool.Name]
		b.bound()
		for i := range b.Failures {
			out.add(pool.Name, &b.Failures[i], s.Now)
		}
		if text := b.text(s, pool); text != pool.Annotations[v1.LaunchBackoffAnnotationKey] {
			out.changes = append(out.changes, BackoffChange{pool.Name, text, found[pool.Name]})
		}
	}
	slices.SortFunc(out.changes, func(a, b BackoffChange) int { return strings.Compare(a.NodePool, b.NodePool) })
	return out
}

func (l *launchBackoffs) add(pool string, f *LaunchFailure, now time.Time) {
	shape := l.byShape[f.Shape]
	if shape == nil {
		shape = &shapeBackoff{shape: f.Shape, byPool: map[string]*LaunchFailure{}}
		l.byShape[f.Shape] = shape
	}
	shape.byPool[pool] = f
	shape.retry = shape.retry || !now.Before(f.until())
}

// shows reports whether the machine shows how much it has: its node is registered, and has been ready for not too long.
func (h *host) shows(now time.Time) bool {
	if h.arrived.known && now.Sub(h.arrived.at) >= launchJudged { // the claim may say it a moment later than the node
		return false
	}
	return len(h.planned) > 0 && h.isRegistered() && !h.goes
}

// showsAll reports whether it shows all else too: it is ready, or has been so for long enough to miss what it does not have, and
// nothing that passes keeps pods off.
func (h *host) showsAll() bool {
	return (h.isInitialized() || h.misses) && h.ready && !slices.ContainsFunc(h.taints, passes)
}

// passes reports whether the taint says how the node does at the moment, not what it is.
func passes(t corev1.Taint) bool {
	domain, _, _ := strings.Cut(t.Key, "/")
	return domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io" || strings.HasSuffix(domain, "karpenter.sh") || domain == "tenon.sh" ||
		IsEphemeralTaint(t)
}

// note writes down that the machine does not take pods of the shape. It reports whether that was not known yet. Machines that were
// asked for before the last failure was found out belong to it.
func (b *launchBackoff) note(h *host, shape, why string, now time.Time) bool {
	kind := h.labels[corev1.LabelInstanceTypeStable]
	i := slices.IndexFunc(b.Failures, func(f LaunchFailure) bool { return f.Shape == shape })
	if i < 0 {
		i = len(b.Failures)
		b.Failures = append(b.Failures, LaunchFailure{Shape: shape})
	}
	f := &b.Failures[i]
	fresh := h.claim.CreationTimestamp.After(f.Last)
	if fresh {
		f.Count, f.Last = f.Count+1, now.UTC().Truncate(time.Second)
	}
	if slices.Contains(f.InstanceTypes, kind) && !fresh {
		return false
	}
	f.Why = why
	if !slices.Contains(f.InstanceTypes, kind) && len(f.InstanceTypes) < mostTypes {
		f.InstanceTypes = append(slices.Clone(f.InstanceTypes), kind)
	}
	return true
}

// correct forgets of a type that it does not take pods that the machine, which was asked for later, has taken.
func (b *launchBackoff) correct(h *host, memo *Memo) {
	kind := h.labels[corev1.LabelInstanceTypeStable]
	b.Failures = slices.DeleteFunc(b.Failures, func(f LaunchFailure) bool {
		return len(f.InstanceTypes) == 1 && f.InstanceTypes[0] == kind && h.claim.CreationTimestamp.After(f.Last) &&
			slices.ContainsFunc(h.bound, func(pod *corev1.Pod) bool {
				return slices.Contains(h.planned, string(pod.UID)) && memo.shapeOf(memo.factsOf(pod)) == f.Shape
			})
	})
}

// bound drops the oldest failures of too many.
func (b *launchBackoff) bound() {
	slices.SortFunc(b.Failures, func(x, y LaunchFailure) int { return cmp.Or(y.Last.Compare(x.Last), strings.Compare(x.Shape, y.Shape)) })
	b.Failures = b.Failures[:min(len(b.Failures), mostShapes)]
}

// unfit says why the machine, which was started for the pod, cannot run it, whatever other pods are there; empty if it could.
func (p *problem) unfit(h *host, f *podFacts) string {
	subject := fmt.Sprintf("machine %s (%s) was started for such a pod and cannot run it: ", h.claim.Name, h.labels[corev1.LabelInstanceTypeStable])
	need := p.census.memo.needFor(f).list
	taken := need.DeepCopy()
	for _, pod := range h.bound {
		if OwnedByDaemonSet(pod) || IsMirror(pod) {
			addList(taken, p.census.memo.needOf(pod).list)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		all, have := taken[name], h.usable()[name]
		if q := need[name]; q.Sign() > 0 && all.Cmp(have) > 0 {
			promised := h.claim.Status.Allocatable[name]
			return subject + fmt.Sprintf("its node has %s %s for pods instead of %s, and with the DaemonSets' pods %s are asked for", have.String(), name, promised.String(), all.String())
		}
	}
	if !h.showsAll() {
		return ""
	}
	w := p.wishes.ofFacts(f)
	if t := untolerated(w.tolerations, h.taints); t != nil {
		return subject + fmt.Sprintf("its node has the taint %s, which the pool does not name; name it under startupTaints if it goes by itself, under taints if it stays", taintText(*t))
	}
	if text := h.mislabelled(w); text != "" {
		return subject + "its node has " + text
	}
	if text := p.unattachable(h, w); text != "" {
		return subject + text
	}
	for _, pod := range h.bound {
		if !OwnedByDaemonSet(pod) && !IsMirror(pod) {
			continue
		}
		for _, held := range hostPortsOf(&pod.Spec) {
			if slices.ContainsFunc(w.ports, held.collides) {
				return subject + fmt.Sprintf("pod %s of its node holds the port %s", podID(pod), portText(held))
			}
		}
	}
	return ""
}

// mislabelled says which label that matters to pods of the wish the machine has other than was planned.
func (h *host) mislabelled(w *wish) string {
	keys := map[string]bool{}
	for _, term := range w.told {
		for _, e := range term {
			keys[e.Key] = true
		}
	}
	for _, spread := range w.spreads {
		keys[spread.key] = true
	}
	for _, t := range slices.Concat(w.affinity, w.anti) {
		keys[t.key] = true
	}
	for _, key := range sortedKeys(keys) {
		want, promised := h.claim.Labels[key]
		if have, there := h.label(key); promised && (!there || have != want) {
			return fmt.Sprintf("label %s=%s instead of %s", key, cmp.Or(have, "(none)"), want)
		}
	}
	return ""
}

// unattachable says for which driver the machine takes fewer volumes than pods of the wish have.
func (p *problem) unattachable(h *host, w *wish) string {
	count := map[string]int{}
	for _, a := range w.volumes.Attach {
		count[a.driver]++
	}
	limits := p.wishes.volumes.limitsOf(h.name(), nil)
	for _, driver := range slices.Sorted(maps.Keys(count)) {
		if limit, known := limits[driver]; known && limit < count[driver] {
			return fmt.Sprintf("its driver %s takes %s, the pod has %d", driver, plural(limit, "volume"), count[driver])
		}
	}
	return ""
}

// backedOff is the wish of the pod with what is known of machines that did not take such pods.
func (w *wishes) backedOff(have *wish, f *podFacts) *wish {
	if w.backoffs == nil {
		return have
	}
	b := w.backoffs.dear[f.pod]
	if b == nil && len(w.backoffs.byShape) > 0 {
		b = w.backoffs.byShape[w.memo.shapeOf(f)]
	}
	if b == nil {
		return have
	}
	key := wishBackoff{have, b}
	out := w.byBackoff[key]
	if out == nil {
		clone := *have
		out, clone.id, clone.backoff = &clone, len(w.list), b
		w.byBackoff[key] = out
		w.list = append(w.list, out)
	}
	return out
}

// options are those of the pool that machines for the pods may not have now, in a retry once the wait is over any; nil for none.
func (b *shapeBackoff) options(m *poolModel, now time.Time, retry bool) bitset.Set {
	if b == nil {
		return nil
	}
	f := b.byPool[m.pool.Name]
	most, limited := b.most[m.pool.Name]
	if f != nil && retry && !now.Before(f.until()) {
		f = nil
	}
	if f == nil && !limited {
		return nil
	}
	if f != nil && now.Before(f.closed()) {
		return bitset.Full(len(m.options))
	}
	out := bitset.New(len(m.options))
	for i := range m.options {
		if f != nil && slices.Contains(f.InstanceTypes, m.options[i].kind.Name) || limited && m.options[i].offering.Price > most {
			out.Add(i)
		}
	}
	return out
}

// launchRefusal says that the pool starts no machine for the class now because earlier ones did not take such pods, or because those
// that can be had are too dear; the zero Reason means that nothing of the kind keeps it from that.
func (p *problem) launchRefusal(pool *poolModel, c *podClass) Reason {
	if c.backoff == nil {
		return Reason{}
	}
	f := c.backoff.byPool[pool.pool.Name]
	if f == nil || !p.snapshot.Now.Before(f.until()) {
		return c.backoff.dear[pool.pool.Name]
	}
	return Reason{Code: LaunchesBackedOff, Need: clockText(f.until()), Have: f.Why}
}
