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

// A machine may turn out to be another one than was planned: something taints it, its volume driver takes fewer volumes, it has less
// memory or other labels. The pods that it was started for do not run there, it goes because it is empty, and the next one would be
// the same. What did not take its pods is therefore written down on the pool, where it outlives the node: such pods get another
// instance type, and the same one again only after a wait that doubles each time.

const (
	launchBackoffFirst = time.Minute
	launchBackoffMost  = time.Hour
	// A machine whose driver publishes nothing is there for inventory.ResourceTimeout, mostly a dear one: the next comes later.
	silentBackoffFirst = inventory.ResourceTimeout
	silentBackoffMost  = 8 * time.Hour
	// launchBackoffMemory is how long after the last machine that did not take its pods others are a failure in the same row.
	launchBackoffMemory = 24 * time.Hour
	// LaunchJudged is for how long after it was ready a machine can turn out not to take its pods.
	LaunchJudged = 10 * time.Minute
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

// Until is when machines of the types that did not take the pods may be started for them again.
func (f *LaunchFailure) Until() time.Time {
	return f.Last.Add(f.wait(f.Count))
}

// Closed is until when no machine at all is started for the pods. After the first failure another type can be tried at once.
func (f *LaunchFailure) Closed() time.Time {
	if f.Count < 2 {
		return time.Time{}
	}
	return f.Last.Add(f.wait(f.Count - 1))
}

// wait is how long after so many failures.
func (f *LaunchFailure) wait(count int) time.Duration {
	if strings.HasPrefix(f.Shape, driverPrefix) {
		return Doubled(silentBackoffFirst, silentBackoffMost, count)
	}
	return Doubled(launchBackoffFirst, launchBackoffMost, count)
}

// Message says the failure to people.
func (f *LaunchFailure) Message() string {
	return fmt.Sprintf("%s; that was so %s in a row, and such a machine is started for such a pod again after %s", f.Why, engine.Plural(f.Count, "time"), engine.ClockText(f.Until()))
}

// LaunchBackoff is what is written on a pool about machines that did not take their pods.
type LaunchBackoff struct {
	// For stands for the pool's template and its class: what was learned of other machines does not count.
	For      string          `json:"for"`
	Failures []LaunchFailure `json:"failures"`
}

// LaunchFailures reads what is written on the pool and still counts: nothing where it cannot be read.
func LaunchFailures(s *engine.Snapshot, pool *v1.NodePool) []LaunchFailure {
	var written LaunchBackoff
	text := pool.Annotations[v1.LaunchBackoffAnnotationKey]
	if text == "" || json.Unmarshal([]byte(text), &written) != nil || written.For != machinesOf(s, pool) {
		return nil
	}
	return slices.DeleteFunc(written.Failures, func(f LaunchFailure) bool {
		age := s.Now.Sub(f.Last)
		return f.Count < 1 || age >= launchBackoffMemory || age < -launchBackoffMost // a clock may be wrong, but not for ever
	})
}

// Text is what to write on the pool, empty for nothing.
func (b *LaunchBackoff) Text(s *engine.Snapshot, pool *v1.NodePool) string {
	if len(b.Failures) == 0 {
		return ""
	}
	b.For = machinesOf(s, pool)
	return inventory.AsJSON(b)
}

// machinesOf stands for what machines the pool starts: its template, and what its class wants them to be.
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

// ShapeBackoff is what keeps pools from starting machines for pods: those of one shape that did not take such pods, and, for pods that
// wait for something cheaper, those that are too dear.
type ShapeBackoff struct {
	Shape  string
	ByPool map[string]*LaunchFailure
	Retry  bool // the wait of some pool is over
	// Most is up to what price an hour pools start machines for the pods now, dear what to say of dearer ones; pools that are not
	// there start any.
	Most map[string]float64
	Dear map[string]engine.Reason
}

// LaunchBackoffs is what a snapshot tells of machines that did not take their pods.
type LaunchBackoffs struct {
	ByShape map[string]*ShapeBackoff
	Changes []engine.BackoffChange
	Unfit   map[*corev1.Pod]*inventory.MachineInfo // the one that was started for the pod and cannot run it
	// Dear are the pods that wait until there are cheaper machines, or until they have waited long enough for dear ones.
	Dear map[*corev1.Pod]*ShapeBackoff
	// Refused are the nodes, in order, that kube-scheduler does not bind the pod to, for a reason that is not known.
	Refused map[*corev1.Pod][]string
	// Unwritten holds the machines that show what no pool remembers yet, with one of the pods: they stay until it does.
	Unwritten map[*inventory.MachineInfo]*corev1.Pod
}

type backoffKey struct {
	of      *PodConstraints
	backoff *ShapeBackoff
	refused string
}

// DriverShape stands for all pods that claim devices of the driver: where it publishes none, none of them runs.
func DriverShape(driver string) string { return driverPrefix + driver }

const driverPrefix = "driver:"

// ShapeOf stands for what the pod asks for: pods of the same namespace and group that ask for the same have the same one,
// whichever of them have to run on demand for their owner's share.
func ShapeOf(cache *inventory.Cache, info *inventory.PodInfo) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%q %q %q", info.Pod.Namespace, cache.RequestsFor(info).Text, inventory.OwnConstraints(info.Pod, cache.ConstraintsOf(info).Text))
	if g := info.Pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		fmt.Fprintf(sum, "%q", *g.PodGroupName) // what keeps a gang off may be its size
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

// Note writes down that the machine does not take pods of the shape. It reports whether that was not known yet. Machines that were
// asked for before the last failure was found out belong to it.
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

// Correct takes the machine's type out of a failure if the machine has taken such a pod since: it is a later machine, or the same one after its
// taint has gone. The failure counts one launch less then.
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

// CorrectDrivers forgets of a type that drivers publish nothing on it if they have on the machine, late as that may be.
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

// Bound drops the oldest failures of too many.
func (b *LaunchBackoff) Bound() {
	slices.SortFunc(b.Failures, func(x, y LaunchFailure) int { return cmp.Or(y.Last.Compare(x.Last), strings.Compare(x.Shape, y.Shape)) })
	b.Failures = b.Failures[:min(len(b.Failures), mostShapes)]
}

// backedOff are the constraints of the pod with what is known of machines that did not take such pods.
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

// withoutRefused leaves out the nodes that kube-scheduler does not bind the pod to.
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

// silentDriver is what is known of machines on which a driver that the pods need has published nothing.
func (w *Reader) silentDriver(have *PodConstraints) *ShapeBackoff {
	for _, driver := range have.Devices.Drivers() {
		if b := w.Backoffs.ByShape[DriverShape(driver)]; b != nil {
			return b
		}
	}
	return nil
}

// Doubled is how long to wait after so many failures, at least one: twice as long each time.
func Doubled(first, most time.Duration, failures int) time.Duration {
	return min(first<<min(failures-1, 10), most)
}
