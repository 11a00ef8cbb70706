package constraints

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// A machine may differ from its plan: it has an unexpected taint, less memory or other labels, or its volume driver takes fewer volumes.
// Then its planned pods do not run there, the empty machine is removed, and the next machine would be the same. So the NodePool's annotation records
// the failure, because the node does not last. These pods then get another instance type, and the same type again only after a wait that doubles each
// time.

const (
	launchBackoffFirst = time.Minute
	launchBackoffMost  = time.Hour
	// A machine whose driver publishes no devices is mostly expensive, and runs for inventory.ResourceTimeout. So Tenon waits longer before it starts
	// the next one.
	silentBackoffFirst = inventory.ResourceTimeout
	silentBackoffMost  = 8 * time.Hour
	// launchBackoffMemory is how long a failure is remembered: a further failure within this time adds to Count, and a later one begins again at 1.
	launchBackoffMemory = 24 * time.Hour
	// LaunchJudged is the time after a machine became ready in which it may turn out not to take its pods.
	LaunchJudged = 10 * time.Minute
	// mostShapes and mostTypes bound the record of one NodePool.
	mostShapes, mostTypes = 32, 64
)

// LaunchFailure is the record of a NodePool's machines that did not take the pods of one shape.
type LaunchFailure struct {
	// Shape is a digest of the pods' requests and constraints.
	Shape string `json:"shape"`
	// InstanceTypes lists the instance types of these machines.
	InstanceTypes []string `json:"instanceTypes"`
	// Count is the number of failures in a row, Last the time of the last one, Why the cause that kept the pods off.
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
}

// Until returns the time from which machines of these instance types may be started for the pods again.
func (f *LaunchFailure) Until() time.Time {
	return f.Last.Add(f.wait(f.Count))
}

// Closed returns the time until which no machine at all is started for the pods. After the first failure, another instance type may be tried at once.
func (f *LaunchFailure) Closed() time.Time {
	if f.Count < 2 {
		return time.Time{}
	}
	return f.Last.Add(f.wait(f.Count - 1))
}

// wait returns the wait after the given number of failures.
func (f *LaunchFailure) wait(count int) time.Duration {
	if strings.HasPrefix(f.Shape, driverPrefix) {
		return Doubled(silentBackoffFirst, silentBackoffMost, count)
	}
	return Doubled(launchBackoffFirst, launchBackoffMost, count)
}

// Message describes the failure for users.
func (f *LaunchFailure) Message() string {
	return fmt.Sprintf("%s; that was so %s in a row, and such a machine is started for such a pod again after %s", f.Why, engine.Plural(f.Count, "time"), engine.ClockText(f.Until()))
}

// LaunchBackoff is the record of a NodePool about machines that did not take their pods.
type LaunchBackoff struct {
	// For is a digest of the NodePool's template and its class: failures of machines from another template or class are ignored.
	For      string          `json:"for"`
	Failures []LaunchFailure `json:"failures"`
}

// LaunchFailures returns the failures on the NodePool that are not yet too old. It returns none if its annotation cannot be read.
func LaunchFailures(s *engine.Snapshot, pool *v1.NodePool) []LaunchFailure {
	var written LaunchBackoff
	text := pool.Annotations[v1.LaunchBackoffAnnotationKey]
	if text == "" || json.Unmarshal([]byte(text), &written) != nil || written.For != machinesOf(s, pool) {
		return nil
	}
	return slices.DeleteFunc(written.Failures, func(f LaunchFailure) bool {
		age := s.Now.Sub(f.Last)
		return f.Count < 1 || age >= launchBackoffMemory || age < -launchBackoffMost // a clock may be wrong, but by no more than an hour
	})
}

// Text returns the annotation for the NodePool. It returns "" if there are no failures.
func (b *LaunchBackoff) Text(s *engine.Snapshot, pool *v1.NodePool) string {
	if len(b.Failures) == 0 {
		return ""
	}
	b.For = machinesOf(s, pool)
	return inventory.AsJSON(b)
}

// machinesOf returns a digest of the machines that the NodePool starts: its template, and the traits that its class requires.
func machinesOf(s *engine.Snapshot, pool *v1.NodePool) string {
	sum := fnv.New64a()
	sum.Write([]byte(pool.Hash()))
	if class := kube.FindClass(s, pool.Spec.Template.Spec.NodeClassRef); class != nil {
		for _, t := range class.Traits {
			fmt.Fprintf(sum, "\n%q %q %q", t.Key, t.Accepts, t.Types)
		}
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

// ShapeBackoff holds the reasons why NodePools do not start some machines for pods: failures with pods of this shape and, for pods that
// wait for cheaper machines, prices that are too high.
type ShapeBackoff struct {
	Shape  string
	ByPool map[string]*LaunchFailure
	Retry  bool // the wait of some pool is over
	// Most is, for each NodePool, the highest price per hour of a machine for the pods now, Dear the reason for dearer machines. A NodePool
	// that is not in Most has no such bound.
	Most map[string]float64
	Dear map[string]engine.Reason
}

// LaunchBackoffs is the data of a snapshot about machines that did not take their pods.
type LaunchBackoffs struct {
	ByShape map[string]*ShapeBackoff
	Changes []engine.BackoffChange
	Unfit   map[*corev1.Pod]*inventory.MachineInfo // the machine that was started for the pod and cannot run it
	// Dear holds the pods that wait for cheaper machines, or until they have waited long enough for dear ones.
	Dear map[*corev1.Pod]*ShapeBackoff
	// Refused holds, for each pod, the nodes to which kube-scheduler does not bind it for an unknown reason, in order.
	Refused map[*corev1.Pod][]string
	// Unwritten holds machines with a failure that no NodePool records yet, each with one of its pods. Each machine is kept until a NodePool records
	// its failure.
	Unwritten map[*inventory.MachineInfo]*corev1.Pod
}

type backoffKey struct {
	of      *PodConstraints
	backoff *ShapeBackoff
	refused string
}

// DriverShape returns the shape of all pods that claim devices of the driver: if the driver publishes no devices on a machine, none of
// these pods runs there.
func DriverShape(driver string) string { return driverPrefix + driver }

const driverPrefix = "driver:"

// ShapeOf returns the shape of the pod: pods of the same namespace and group with the same requests and constraints have the same shape,
// also if only some of them must run on demand for their owner's share.
func ShapeOf(cache *inventory.Cache, info *inventory.PodInfo) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%q %q %q", info.Pod.Namespace, cache.RequestsFor(info).Text, inventory.OwnConstraints(info.Pod, cache.ConstraintsOf(info).Text))
	if g := info.Pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		fmt.Fprintf(sum, "%q", *g.PodGroupName) // the size of a gang may keep it off
	}
	for i := range info.Pod.Spec.ResourceClaims {
		c := &info.Pod.Spec.ResourceClaims[i]
		for _, name := range []*string{c.ResourceClaimName, c.ResourceClaimTemplateName} {
			if name != nil {
				fmt.Fprintf(sum, "%q", *name)
			}
		}
	}
	for i := range info.Pod.Spec.Volumes {
		if v := &info.Pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			sum.Write([]byte{'v'})
		}
	}
	return fmt.Sprintf("%x", sum.Sum64())
}

func (l *LaunchBackoffs) Add(pool string, f *LaunchFailure, now time.Time) {
	shape := l.ByShape[f.Shape]
	if shape == nil {
		shape = &ShapeBackoff{Shape: f.Shape, ByPool: map[string]*LaunchFailure{}}
		l.ByShape[f.Shape] = shape
	}
	shape.ByPool[pool] = f
	shape.Retry = shape.Retry || !now.Before(f.Until())
}

// Note records that the machine does not take pods of the shape. It reports whether this is new. If the machine was created before the last failure
// was found, it belongs to that failure.
func (b *LaunchBackoff) Note(m *inventory.Machine, shape, why string, now time.Time) bool {
	kind := m.Labels[corev1.LabelInstanceTypeStable]
	i := slices.IndexFunc(b.Failures, func(f LaunchFailure) bool { return f.Shape == shape })
	if i < 0 {
		i = len(b.Failures)
		b.Failures = append(b.Failures, LaunchFailure{Shape: shape})
	}
	f := &b.Failures[i]
	fresh := m.Claim.CreationTimestamp.After(f.Last)
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

// Correct removes the machine's instance type from a failure if, since that failure, the machine has taken a planned pod of the failure's shape. The
// machine is a later one, or the same one without its taint. Count then decreases by one.
func (b *LaunchBackoff) Correct(m *inventory.Machine, cache *inventory.Cache) {
	kind := m.Labels[corev1.LabelInstanceTypeStable]
	for i := range b.Failures {
		f := &b.Failures[i]
		at := slices.Index(f.InstanceTypes, kind)
		took := func(pod *corev1.Pod) bool {
			later := m.Claim.CreationTimestamp.After(f.Last) || inventory.BoundAt(pod).After(f.Last)
			return later && slices.Contains(m.Planned, string(pod.UID)) && ShapeOf(cache, cache.InfoOf(pod)) == f.Shape
		}
		if at >= 0 && slices.ContainsFunc(m.Bound, took) {
			f.InstanceTypes, f.Count = slices.Delete(slices.Clone(f.InstanceTypes), at, at+1), max(1, f.Count-1)
		}
	}
	b.Failures = slices.DeleteFunc(b.Failures, func(f LaunchFailure) bool { return len(f.InstanceTypes) == 0 })
}

// CorrectDrivers drops a driver's failure that lists no instance type but the machine's, if the driver has published devices on the machine after
// all.
func (b *LaunchBackoff) CorrectDrivers(m *inventory.Machine, published *dra.Published) {
	if published == nil || m.Node == nil {
		return
	}
	kind := m.Labels[corev1.LabelInstanceTypeStable]
	b.Failures = slices.DeleteFunc(b.Failures, func(f LaunchFailure) bool {
		driver, ok := strings.CutPrefix(f.Shape, driverPrefix)
		return ok && len(f.InstanceTypes) == 1 && f.InstanceTypes[0] == kind && published.Lacks(m.Node, []string{driver}) == ""
	})
}

// Bound drops the oldest failures if there are more than mostShapes.
func (b *LaunchBackoff) Bound() {
	slices.SortFunc(b.Failures, func(x, y LaunchFailure) int { return cmp.Or(y.Last.Compare(x.Last), strings.Compare(x.Shape, y.Shape)) })
	b.Failures = b.Failures[:min(len(b.Failures), mostShapes)]
}

// backedOff returns the constraints of the pod, with the failures of machines that did not take pods like it.
func (w *Reader) backedOff(have *PodConstraints, info *inventory.PodInfo) *PodConstraints {
	if w.Backoffs == nil {
		return have
	}
	have = w.withoutRefused(have, w.Backoffs.Refused[info.Pod])
	b := w.Backoffs.Dear[info.Pod]
	if b == nil && len(w.Backoffs.ByShape) > 0 {
		b = w.silentDriver(have)
	}
	if b == nil && len(w.Backoffs.ByShape) > 0 {
		b = w.Backoffs.ByShape[ShapeOf(w.cache, info)]
	}
	if b == nil {
		return have
	}
	key := backoffKey{of: have, backoff: b}
	out := w.byBackoff[key]
	if out == nil {
		clone := *have
		out, clone.ID, clone.Backoff = &clone, len(w.list), b
		w.byBackoff[key] = out
		w.list = append(w.list, out)
	}
	return out
}

// withoutRefused returns the constraints without the nodes to which kube-scheduler does not bind the pod.
func (w *Reader) withoutRefused(have *PodConstraints, nodes []string) *PodConstraints {
	if len(nodes) == 0 || !have.Objection.OK() {
		return have
	}
	key := backoffKey{of: have, refused: strings.Join(nodes, " ")}
	out := w.byBackoff[key]
	if out == nil {
		clone := *have
		out, clone.ID = &clone, len(w.list)
		others := requirement.Expect(kube.NodeNameKey, requirement.NotIn, nodes)
		clone.Terms = nil
		for _, term := range have.Terms {
			if both, ok := kube.Intersect(append(slices.Clone(term), others)); ok {
				clone.Terms = append(clone.Terms, both)
			}
		}
		w.byBackoff[key] = out
		w.list = append(w.list, out)
	}
	return out
}

// silentDriver returns the failures of machines on which a driver that the pods need has published nothing. It returns nil if there are none.
func (w *Reader) silentDriver(have *PodConstraints) *ShapeBackoff {
	for _, driver := range have.Devices.Drivers() {
		if b := w.Backoffs.ByShape[DriverShape(driver)]; b != nil {
			return b
		}
	}
	return nil
}

// Doubled returns the wait after the given number of failures, at least one: it doubles with each failure, up to most.
func Doubled(first, most time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 10), most)
}
