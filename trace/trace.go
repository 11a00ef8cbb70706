package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MostPods is the largest number of pods in a trace. Each pod needs about 100 bytes of memory, more if requests differ.
const MostPods = 2_000_000

// A Trace is a list of pods in the order of their arrival.
type Trace struct {
	// Kinds are the kinds of pods: pods of a kind differ only in names, owners and times. Owners are names of owners, such as
	// "ReplicaSet/web-5d8f".
	Kinds  []Kind
	Owners []string
	Pods   []Pod
	// Notes tell the parts that were left out, and suspicious data that may be right.
	Notes []string
}

// Kind has the properties that several pods share.
type Kind struct {
	Namespace string
	Requests  corev1.ResourceList
	Labels    map[string]string
	// Selector is the node selector.
	Selector    map[string]string
	Tolerations []corev1.Toleration
}

// Pod is a pod with the numbers of its Kind and Owner. Owner is -1 if it has none. Departure is never if it stays.
type Pod struct {
	Name        string
	Arrival     Moment
	Departure   Moment
	Kind, Owner int32
	line        int32
}

// Moment is a time, in nanoseconds since 1970.
type Moment int64

// never is the Departure of a pod that stays.
const never Moment = 0

func (m Moment) Time() time.Time { return time.Unix(0, int64(m)).UTC() }

// Stays reports whether the pod is still there when the trace ends.
func (p *Pod) Stays() bool { return p.Departure == never }

// Begin returns the time of the first arrival, End the time of the last event.
func (t *Trace) Begin() time.Time { return t.Pods[0].Arrival.Time() }

func (t *Trace) End() time.Time {
	last := t.Pods[0].Arrival
	for i := range t.Pods {
		last = max(last, t.Pods[i].Arrival, t.Pods[i].Departure)
	}
	return last.Time()
}

// An Error is a fault in a line of a file. Line is 0 if the fault concerns the whole file.
type Error struct {
	File string
	Line int
	Text string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// builder makes a trace of rows.
type builder struct {
	Trace
	file      string
	most      int // largest number of pods
	kinds     map[string]int32
	owners    map[string]int32
	key       []byte
	daemons   int // number of pods that were left out
	disorder  int // the first line that arrives before its predecessor
	precursor int
}

func newBuilder(file string) *builder {
	return &builder{file: file, most: MostPods, kinds: map[string]int32{}, owners: map[string]int32{}}
}

func (b *builder) errorf(line int, format string, args ...any) error {
	return &Error{b.file, line, fmt.Sprintf(format, args...)}
}

func (b *builder) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// row is a pod as text. Semicolons separate the items of labels, selector and tolerations.
type row struct {
	namespace, pod, owner         string
	arrival, departure            string
	resources, amounts            []string // in the same order
	labels, selector, tolerations string
}

// add parses a row and adds its pod.
func (b *builder) add(r *row, line int) error {
	p := Pod{line: int32(min(line, 1<<31-1))}
	if err := checkName(r.pod); err != nil {
		return b.errorf(line, "pod: %v", err)
	}
	p.Name = strings.Clone(r.pod)
	var err error
	if p.Arrival, err = readTime(r.arrival); err != nil {
		return b.errorf(line, "arrival of pod %s: %v", r.pod, err)
	}
	if r.departure != "" {
		if p.Departure, err = readTime(r.departure); err != nil {
			return b.errorf(line, "departure of pod %s: %v", r.pod, err)
		}
		if p.Departure <= p.Arrival {
			return b.errorf(line, "pod %s departs at %s, which is not after its arrival at %s", r.pod, r.departure, r.arrival)
		}
	}
	if p.Owner, err = b.owner(r.owner); err != nil {
		return b.errorf(line, "owner of pod %s: %v", r.pod, err)
	}
	if p.Kind, err = b.kind(r); err != nil {
		return b.errorf(line, "pod %s: %v", r.pod, err)
	}
	return b.put(p)
}

// put adds a pod whose values are checked.
func (b *builder) put(p Pod) error {
	if p.Owner >= 0 {
		if kind, _, _ := strings.Cut(b.Owners[p.Owner], "/"); kind == "DaemonSet" || kind == "Node" {
			b.daemons++
			return nil
		}
	}
	if len(b.Pods) == b.most {
		return b.errorf(int(p.line), "this is pod %d, and a trace may hold %d: cut it into shorter times", b.most+1, b.most)
	}
	if n := len(b.Pods); n > 0 && b.disorder == 0 && p.Arrival < b.Pods[n-1].Arrival {
		b.disorder, b.precursor = int(p.line), int(b.Pods[n-1].line)
	}
	b.Pods = append(b.Pods, p)
	return nil
}

func (b *builder) owner(text string) (int32, error) {
	if text == "" {
		return -1, nil
	}
	if i, known := b.owners[text]; known {
		return i, nil
	}
	kind, name, found := strings.Cut(text, "/")
	if !found || kind == "" {
		return 0, fmt.Errorf("%q has not the form Kind/name, such as ReplicaSet/web-5d8f", text)
	}
	if err := checkName(name); err != nil {
		return 0, err
	}
	text = strings.Clone(text)
	i := int32(len(b.Owners))
	b.Owners, b.owners[text] = append(b.Owners, text), i
	return i, nil
}

// kind returns the number of the row's kind. It parses the row's text only for a new kind.
func (b *builder) kind(r *row) (int32, error) {
	b.key = b.key[:0]
	for i, name := range r.resources {
		b.key = append(append(append(append(b.key, name...), '='), r.amounts[i]...), 0)
	}
	for _, part := range []string{r.namespace, r.labels, r.selector, r.tolerations} {
		b.key = append(append(b.key, part...), 0)
	}
	if i, known := b.kinds[string(b.key)]; known {
		return i, nil
	}
	k, err := readKind(r)
	if err != nil {
		return 0, err
	}
	i := int32(len(b.Kinds))
	b.Kinds, b.kinds[string(b.key)] = append(b.Kinds, k), i
	return i, nil
}

// finish sorts the pods and refuses two pods of one name at the same time.
func (b *builder) finish() (*Trace, error) {
	if b.daemons > 0 {
		b.note("%s: %s of DaemonSets or of the nodes themselves left out: they come with nodes. Name their DaemonSets with -f", b.file, plural(b.daemons, "pod"))
	}
	if len(b.Pods) == 0 {
		return nil, b.errorf(0, "it holds no pods")
	}
	if b.disorder > 0 {
		b.note("%s:%d: this pod arrives before the one in line %d: all are put in order", b.file, b.disorder, b.precursor)
	}
	namespace := func(p *Pod) string { return b.Kinds[p.Kind].Namespace }
	order := make([]int32, len(b.Pods))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		x, y := &b.Pods[i], &b.Pods[j]
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(namespace(x), namespace(y)), cmp.Compare(x.Arrival, y.Arrival), cmp.Compare(x.line, y.line))
	})
	for i := 1; i < len(order); i++ {
		x, y := &b.Pods[order[i-1]], &b.Pods[order[i]]
		if x.Name == y.Name && namespace(x) == namespace(y) && (x.Stays() || y.Arrival < x.Departure) {
			return nil, b.errorf(int(max(x.line, y.line)), "pod %s/%s is there already, from line %d: two of one name cannot be there at a time", namespace(x), x.Name, min(x.line, y.line))
		}
	}
	slices.SortStableFunc(b.Pods, func(x, y Pod) int { return cmp.Compare(x.Arrival, y.Arrival) })
	b.kinds, b.owners = nil, nil
	return &b.Trace, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
