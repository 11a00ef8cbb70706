package kube

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
)

// PodRequests is what the pod needs on a node, as kube-scheduler counts it: the larger of what runs together and of
// each step of its start, init containers that keep running counted with both, requests of the pod as a whole instead
// where there are any, its overhead, and one pod. A resize in place counts with the larger of what is asked for and reality.
// What the kubelet has said that it can never give does not count.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return countRequests(pod, !ResizeIsHopeless(pod))
}

// GivenRequests is the same without what a resize in place asks for and the kubelet has not given.
func GivenRequests(pod *corev1.Pod) corev1.ResourceList { return countRequests(pod, false) }

func countRequests(pod *corev1.Pod, wish bool) corev1.ResourceList {
	running := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		AddList(running, containerRequests(wish, &pod.Spec.Containers[i], pod.Status.ContainerStatuses))
	}
	sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := corev1.ResourceList{}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			stays := containerRequests(wish, c, pod.Status.InitContainerStatuses)
			AddList(running, stays)
			AddList(sidecars, stays)
		} else {
			AddList(need, c.Resources.Requests) // it cannot be resized
		}
		AddList(need, sidecars)
		MaxList(starting, need)
	}
	MaxList(running, starting)
	wholeRequests(pod, wish, running)
	AddList(running, pod.Spec.Overhead)
	AddList(running, corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)})
	return running
}

// wholeRequests puts what the pod requests as a whole in the place of what its containers request.
func wholeRequests(pod *corev1.Pod, wish bool, need corev1.ResourceList) {
	if pod.Spec.Resources == nil {
		return
	}
	counted := pod.Spec.Resources.Requests
	if r := pod.Status.Resources; r != nil {
		counted = resized(wish, counted, r.Requests, pod.Status.AllocatedResources)
	}
	for name := range pod.Spec.Resources.Requests {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			need[name] = counted[name].DeepCopy() // more will be added to it
		}
	}
}

func containerRequests(wish bool, c *corev1.Container, statuses []corev1.ContainerStatus) corev1.ResourceList {
	for i := range statuses {
		if s := &statuses[i]; s.Name == c.Name && s.Resources != nil {
			return resized(wish, c.Resources.Requests, s.Resources.Requests, s.AllocatedResources)
		}
	}
	return c.Resources.Requests
}

// resized is what counts of a resize in place: the largest of what is wished, if the wish counts, what is and what the kubelet has
// promised.
func resized(wish bool, wished, actual, promised corev1.ResourceList) corev1.ResourceList {
	need := corev1.ResourceList{}
	if wish {
		MaxList(need, wished)
	}
	MaxList(need, actual)
	MaxList(need, promised)
	return need
}

// ResizeIsHopeless reads the kubelet's word about the pod's resize. Like kube-scheduler it looks at the reason only.
func ResizeIsHopeless(pod *corev1.Pod) bool {
	c := ResizePending(pod)
	return c != nil && c.Reason == corev1.PodReasonInfeasible
}

// ResizePending is the kubelet's word about a resize in place that it has not given; nil if there is none.
func ResizePending(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

func AddList(into, more corev1.ResourceList) {
	for name, q := range more {
		sum := into[name]
		sum.Add(q)
		into[name] = sum
	}
}

func MaxList(into, other corev1.ResourceList) {
	for name, q := range other {
		if have, ok := into[name]; !ok || have.Cmp(q) < 0 {
			into[name] = q.DeepCopy() // what is added to it must not reach other
		}
	}
}

// Amount counts a quantity in the units of the engine: thousandths of cpu, pieces (bytes, pods, devices) of everything
// else, rounded up.
func Amount(name corev1.ResourceName, q resource.Quantity) int64 {
	most := capacity.Most
	if name == corev1.ResourceCPU {
		most /= 1000
	}
	switch {
	case tooLarge(q):
		return capacity.Most * int64(q.Sign())
	case q.CmpInt64(most) >= 0:
		return capacity.Most
	case q.CmpInt64(-most) <= 0:
		return -capacity.Most
	}
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// beyondCounting has an exponent of three digits or more.
var beyondCounting = regexp.MustCompile(`^[-+]?[0-9.]+[eE][-+]?[0-9.]{3,}$`)

// IsBeyondCounting reports whether the text is a quantity of which arithmetic would write out all digits: 1e999999999 takes minutes and
// gigabytes.
func IsBeyondCounting(text string) bool { return beyondCounting.MatchString(text) }

// Counted is the most that the engine counts with in the place of a text that IsBeyondCounting, or the least where its exponent is
// negative: what is read is rounded up.
func Counted(text string) string {
	amount := strconv.FormatInt(capacity.Most, 10)
	if strings.Contains(strings.ToLower(text), "e-") {
		amount = "1n"
	}
	if strings.HasPrefix(text, "-") {
		return "-" + amount
	}
	return amount
}

// tooLarge reports whether a quantity as it was read is one of which arithmetic would write out all digits, upwards. (Downwards there
// is none: the reader itself rounds up to a billionth.)
func tooLarge(q resource.Quantity) bool {
	return q.Format == resource.DecimalExponent && q.AsDec().Scale() < -99
}

// Countable puts in the place of each amount that arithmetic would write out for minutes the largest that the engine counts with. The
// API server takes them in custom resources. (In pods it cannot: it would have to compare them itself.)
func Countable(list corev1.ResourceList) {
	for name, q := range list {
		if tooLarge(q) {
			list[name] = Quantity(name, Amount(name, q))
		}
	}
}

// Quantity is the reverse of amount, in the form that people expect of that resource.
func Quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), "hugepages-"):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// ResourceNames gives every resource that matters in a problem its place in the vectors. Those that no machine has share one place
// where there are many of them.
type ResourceNames struct {
	capacity.Names
	Nowhere map[string]bool
}

// FewNames is how many resources are told apart whether any machine has them or not.
const FewNames = 32

// Nowhere is the name of the place of those that no machine has.
const Nowhere = "what no machine has"

// NewResourceNames starts with the resources that every machine has; the rest follow by name.
func NewResourceNames(asked map[corev1.ResourceName]bool) *ResourceNames {
	r := &ResourceNames{}
	for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, v1.ResourceNodes} {
		r.Index(string(n))
	}
	names := make([]string, 0, len(asked))
	for n := range asked {
		names = append(names, string(n))
	}
	slices.Sort(names)
	for _, n := range names {
		r.Index(n)
	}
	return r
}

// Devices marks the resources that come with devices: all that are not of Kubernetes itself.
func (r *ResourceNames) Devices() []bool {
	out := make([]bool, r.Len())
	for i := range out {
		name := r.Name(i)
		domain, _, found := strings.Cut(name, "/")
		out[i] = found && !strings.HasSuffix(domain, "kubernetes.io") && !strings.HasPrefix(name, AttachPrefix)
	}
	return out
}

// Drivers holds the places of the resources that stand for volumes, by CSI driver.
func (r *ResourceNames) Drivers() map[string]int {
	var out map[string]int
	for i := range r.Len() {
		if driver, ok := strings.CutPrefix(r.Name(i), AttachPrefix); ok {
			if out == nil {
				out = map[string]int{}
			}
			out[driver] = i
		}
	}
	return out
}

// Vector counts the list; resources that nobody in the problem asks for are left out.
func (r *ResourceNames) Vector(list corev1.ResourceList) capacity.Vector {
	v := make(capacity.Vector, r.Len())
	for name, q := range list {
		if i := r.Find(string(name)); i >= 0 {
			v[i] = Amount(name, q)
		} else if r.Nowhere[string(name)] && q.Sign() > 0 {
			v[r.Find(Nowhere)] = 1
		}
	}
	return v
}

// Missing is the first resource of the list, by name, that no machine has.
func (r *ResourceNames) Missing(list corev1.ResourceList) corev1.ResourceName {
	first := corev1.ResourceName("")
	for name, q := range list {
		if r.Nowhere[string(name)] && q.Sign() > 0 && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// SetDevices writes into the vector how many of each kind of claimed devices there are.
func (r *ResourceNames) SetDevices(v capacity.Vector, room map[corev1.ResourceName]int64) {
	for d := range v {
		if name := corev1.ResourceName(r.Name(d)); IsClaimed(name) {
			v[d] = room[name]
		}
	}
}

// List is the reverse of vector, without what is zero.
func (r *ResourceNames) List(v capacity.Vector) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i, n := range v {
		if name := corev1.ResourceName(r.Name(i)); n != 0 {
			list[name] = Quantity(name, n)
		}
	}
	return list
}

// AttachPrefix starts the names of the resources that volumes of a driver are counted as.
const AttachPrefix = "attachable-volumes-"

// AttachResource is the resource that stands for one more volume of the CSI driver on a node.
func AttachResource(driver string) corev1.ResourceName {
	return corev1.ResourceName(AttachPrefix + driver)
}

// DevicesPrefix starts the names of the resources that devices which claims select are counted as.
const DevicesPrefix = "claimed-devices-"

// IsClaimed reports whether devices that claims select are counted as the resource.
func IsClaimed(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), DevicesPrefix) }

// IsPlanned reports whether the resource is one that plans alone know: no machine shows it.
func IsPlanned(name string) bool {
	return strings.HasPrefix(name, AttachPrefix) || strings.HasPrefix(name, DevicesPrefix)
}

func WithMissing(list, from corev1.ResourceList) corev1.ResourceList {
	for name, q := range from {
		if _, ok := list[name]; ok {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = q
	}
	return list
}

// Text lists the resources in their order.
func (r *ResourceNames) Text() string {
	var b strings.Builder
	for i := range r.Len() {
		b.WriteString(strconv.Quote(r.Name(i)))
	}
	return b.String()
}

// EvictionThreshold reads a threshold of the kubelet: a quantity, or a part of the whole, of which all means that there is none.
// What is empty or cannot be read is as usual says.
func EvictionThreshold(text, usual string, whole int64) resource.Quantity {
	for _, text := range []string{text, usual} {
		if number, ok := strings.CutSuffix(text, "%"); ok {
			if part, err := strconv.ParseFloat(number, 64); err == nil && part == 100 {
				return resource.Quantity{}
			} else if err == nil {
				return *resource.NewQuantity(int64(math.Ceil(float64(whole)/100*part)), resource.BinarySI)
			}
		} else if q, err := resource.ParseQuantity(text); err == nil {
			return q
		}
	}
	return resource.Quantity{}
}
