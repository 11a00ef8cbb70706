package trace

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/kube"
)

// An Audit makes a trace of an API server's audit log: lines of JSON about pods that were created, bound, evicted, deleted or
// done, at level Request or RequestResponse. Several files are read in order of time.
type Audit struct {
	b       *builder
	pods    map[string]*audited   // by namespace and name, those that are there
	unnamed map[string][]*audited // by namespace and generateName, those whose names are not known yet
	over    map[string]bool       // those that have gone: they are deleted twice, by a user and then by the kubelet
	list    []*audited
	// What is left out: events without objects, deletions of pods that are not known, deletions of several at once.
	bare, unknown, collections int
	first                      time.Time
}

type audited struct {
	row             row
	line            int
	file            string
	arrived, leaves time.Time
}

// NewAudit begins a trace.
func NewAudit() *Audit {
	return &Audit{b: newBuilder("audit log"), pods: map[string]*audited{}, unnamed: map[string][]*audited{}, over: map[string]bool{}}
}

// auditEvent is what is read of an event of audit.k8s.io/v1.
type auditEvent struct {
	Kind      string `json:"kind"`
	Level     string `json:"level"`
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`
	StageTimestamp time.Time       `json:"stageTimestamp"`
}

// Add reads one file.
func (a *Audit) Add(in io.Reader, file string) error {
	a.b.file = file
	l, err := a.b.open(in, mostRecord)
	if err != nil {
		return err
	}
	events := 0
	for l.next() {
		var e auditEvent
		if err := json.Unmarshal([]byte(l.text), &e); err != nil {
			if l.open {
				a.b.note("%s:%d: the last line is half written and left out", file, l.number)
				break
			}
			return a.b.errorf(l.number, "this is no audit event: %v", err)
		}
		if e.Kind != "Event" {
			return a.b.errorf(l.number, "this is no audit event: its kind is %q, not Event", e.Kind)
		}
		events++
		if len(a.list) > MostPods {
			return a.b.errorf(l.number, "there are more than %d pods: cut the log into shorter times", MostPods)
		}
		if err := a.take(&e, l.number); err != nil {
			return err
		}
	}
	if l.err == nil && events == 0 {
		return a.b.errorf(0, "it is empty")
	}
	return l.err
}

// take takes over what an event tells of pods.
func (a *Audit) take(e *auditEvent, line int) error {
	o := e.ObjectRef
	if e.Stage != "ResponseComplete" || o == nil || o.Resource != "pods" || o.APIGroup != "" || e.ResponseStatus == nil || e.ResponseStatus.Code/100 != 2 {
		return nil
	}
	if e.StageTimestamp.IsZero() {
		return a.b.errorf(line, "the event has no stageTimestamp")
	}
	if a.first.IsZero() || e.StageTimestamp.Before(a.first) {
		a.first = e.StageTimestamp
	}
	key := o.Namespace + "/" + o.Name
	switch e.Verb + " " + o.Subresource {
	case "create ":
		return a.created(e, line)
	case "create binding":
		a.bound(o.Namespace, o.Name)
	case "create eviction":
		a.gone(key, e.StageTimestamp)
	case "delete ":
		a.ended(e, key, line)
	case "deletecollection ":
		a.collections++
	case "patch status", "update status":
		var pod corev1.Pod
		object := e.ResponseObject
		if object == nil {
			object = e.RequestObject
		}
		if json.Unmarshal(object, &pod) == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) {
			a.ended(e, key, line)
		}
	}
	return nil
}

func (a *Audit) created(e *auditEvent, line int) error {
	object := e.ResponseObject
	if object == nil {
		object = e.RequestObject
	}
	if object == nil {
		a.bare++
		return nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(object, &pod); err != nil {
		return a.b.errorf(line, "the pod that is created cannot be read: %v", err)
	}
	if pod.Namespace == "" {
		pod.Namespace = e.ObjectRef.Namespace
	}
	if pod.Name == "" {
		pod.Name = e.ObjectRef.Name
	}
	x := &audited{row: rowOfPod(&pod), line: line, file: a.b.file, arrived: e.StageTimestamp}
	a.list = append(a.list, x)
	if pod.Name != "" {
		key := pod.Namespace + "/" + pod.Name
		if old := a.pods[key]; old != nil && old.leaves.IsZero() { // a name is free again once its pod has gone
			old.leaves = e.StageTimestamp
		}
		a.pods[key] = x
		delete(a.over, key)
		return nil
	}
	key := pod.Namespace + "/" + pod.GenerateName
	a.unnamed[key] = append(a.unnamed[key], x)
	return nil
}

// suffix is how many characters the API server adds to generateName.
const suffix = 5

// bound finds the name of a pod whose creation was logged without one: the oldest of that generateName.
func (a *Audit) bound(namespace, name string) {
	if a.pods[namespace+"/"+name] != nil || len(name) <= suffix {
		return
	}
	key := namespace + "/" + name[:len(name)-suffix]
	list := a.unnamed[key]
	if len(list) == 0 {
		return
	}
	list[0].row.pod = name
	a.pods[namespace+"/"+name] = list[0]
	a.unnamed[key] = list[1:]
}

// gone notes that a pod goes, and reports whether it is known.
func (a *Audit) gone(key string, at time.Time) (known bool) {
	x := a.pods[key]
	if x == nil {
		return a.over[key]
	}
	x.leaves = at
	delete(a.pods, key)
	a.over[key] = true
	return true
}

// ended is gone; it takes a pod that was there before the log for one that has been there from its beginning, if the answer shows
// it.
func (a *Audit) ended(e *auditEvent, key string, line int) {
	if a.gone(key, e.StageTimestamp) {
		return
	}
	var pod corev1.Pod
	if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject, &pod) != nil || len(pod.Spec.Containers) == 0 || !pod.CreationTimestamp.Time.Before(a.first) {
		a.unknown++
		return
	}
	a.over[key] = true
	a.list = append(a.list, &audited{row: rowOfPod(&pod), line: line, file: a.b.file, arrived: a.first, leaves: e.StageTimestamp})
}

func rowOfPod(pod *corev1.Pod) row {
	r := row{namespace: pod.Namespace, pod: pod.Name, labels: pairsText(pod.Labels), selector: pairsText(pod.Spec.NodeSelector)}
	for _, o := range pod.OwnerReferences {
		if r.owner == "" || o.Controller != nil && *o.Controller {
			r.owner = o.Kind + "/" + o.Name
		}
	}
	r.tolerations = tolerationsText(slices.DeleteFunc(slices.Clone(pod.Spec.Tolerations), func(t corev1.Toleration) bool {
		return t.TolerationSeconds != nil // what the API server gives every pod
	}))
	requests := kube.PodRequests(pod)
	t := Trace{Kinds: []Kind{{Requests: requests}}}
	for _, name := range t.resources() {
		if q := requests[corev1.ResourceName(name)]; name != "cpu" && q.MilliValue()%1000 != 0 { // 128m of memory, which the API server takes
			requests[corev1.ResourceName(name)] = *resource.NewQuantity(q.Value(), q.Format)
		}
		if text := amountText(requests, name); text != "" && isResource(name) {
			r.resources, r.amounts = append(r.resources, name), append(r.amounts, text)
		}
	}
	return r
}

// Trace makes the trace of all that was added.
func (a *Audit) Trace() (*Trace, error) {
	b := a.b
	nameless := 0
	for _, x := range a.list {
		if x.row.pod == "" {
			nameless++
			continue
		}
		x.row.arrival = x.arrived.UTC().Format(time.RFC3339Nano)
		if !x.leaves.IsZero() {
			if !x.leaves.After(x.arrived) {
				continue
			}
			x.row.departure = x.leaves.UTC().Format(time.RFC3339Nano)
		}
		b.file = x.file
		if err := b.add(&x.row, x.line); err != nil {
			return nil, err
		}
	}
	b.file = "audit log"
	b.disorder = 0 // a pod that was there before is learnt of when it goes
	if nameless > 0 {
		b.note("%s left out whose names the log does not tell: log pods at level RequestResponse, or their bindings too", plural(nameless, "pod"))
	}
	if a.bare > 0 {
		b.note("%s left out that were logged without the pod: log pods at level Request or RequestResponse", plural(a.bare, "creation"))
	}
	if a.unknown > 0 {
		b.note("%s of pods that were there before the log begins, of which it does not tell what they ask for: left out", plural(a.unknown, "deletion"))
	}
	b.note("pods that were there before the log begins and are so after it ends are not in it: name their workloads with -f")
	if a.collections > 0 {
		b.note("%s of all pods of a selector at once: these are taken to stay", plural(a.collections, "deletion"))
	}
	return b.finish()
}
