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

// PodRequests returns the pod's requests on a node, as kube-scheduler counts them: the requests of its containers together, or of the largest step
// of its start if that is more. Sidecar init containers count in both. Pod-level requests, if there are any, replace these. The overhead and one
// pod are added. During a resize in place, it uses the larger of the desired and the actual amounts. It ignores a resize that the kubelet calls
// infeasible.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return countRequests(pod, !ResizeIsHopeless(pod))
}

// GivenRequests returns the requests as PodRequests does, without a resize in place that the kubelet has not granted.
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
			AddList(need, c.Resources.Requests) // these init containers cannot be resized
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

// wholeRequests replaces the containers' requests by pod-level requests.
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

// resized returns the requests during a resize in place: the largest of the actual amounts, the promised ones and, if wish is true, the wished ones.
func resized(wish bool, wished, actual, promised corev1.ResourceList) corev1.ResourceList {
	need := corev1.ResourceList{}
	if wish {
		MaxList(need, wished)
	}
	MaxList(need, actual)
	MaxList(need, promised)
	return need
}

// ResizeIsHopeless reports whether the kubelet calls the pod's resize infeasible. Like kube-scheduler it reads the reason only.
func ResizeIsHopeless(pod *corev1.Pod) bool {
	c := ResizePending(pod)
	return c != nil && c.Reason == corev1.PodReasonInfeasible
}

// ResizePending returns the kubelet's condition for a resize in place that it has not granted. It returns nil if there is none.
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
			into[name] = q.DeepCopy() // later additions must not change other
		}
	}
}

// Amount returns a quantity in the units of the engine: thousandths of CPU, whole units (bytes, pods, devices) of other resources, rounded up.
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

// IsBeyondCounting reports whether the text is a quantity for which arithmetic would write out all digits: 1e999999999 takes minutes and
// gigabytes.
func IsBeyondCounting(text string) bool { return beyondCounting.MatchString(text) }

// Counted replaces a text that IsBeyondCounting by the engine's largest amount, or by the smallest one if the exponent is negative, because
// quantities are rounded up when they are read.
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

// tooLarge reports whether a quantity is so large that arithmetic would write out all digits. Tiny quantities need no check, because reading
// rounds them up to a billionth.
func tooLarge(q resource.Quantity) bool {
	return q.Format == resource.DecimalExponent && q.AsDec().Scale() < -99
}

// Countable replaces amounts for which arithmetic would take minutes by the engine's largest amount. The API server accepts such amounts in
// custom resources. (In pods it cannot: it would have to compare them itself.)
func Countable(list corev1.ResourceList) {
	for name, q := range list {
		if tooLarge(q) {
			list[name] = Quantity(name, Amount(name, q))
		}
	}
}

// Quantity is the reverse of Amount, in the usual form of that resource.
func Quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), "hugepages-"):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// ResourceNames maps each resource of a problem to its index in the vectors. If there are many resources that no machine has, they share one
// index.
type ResourceNames struct {
	capacity.Names
	Nowhere map[string]bool
}

// FewNames is the number of resources up to which each has its own index, even if no machine has it.
const FewNames = 32

// Nowhere is the name of the index of resources that no machine has.
const Nowhere = "what no machine has"

// NewResourceNames starts with the resources of every machine; the others follow by name.
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

// Devices marks the resources of devices: all with a domain that is not of Kubernetes itself.
func (r *ResourceNames) Devices() []bool {
	out := make([]bool, r.Len())
	for i := range out {
		name := r.Name(i)
		domain, _, found := strings.Cut(name, "/")
		out[i] = found && !strings.HasSuffix(domain, "kubernetes.io") && !strings.HasPrefix(name, AttachPrefix)
	}
	return out
}

// Drivers returns the indexes of the resources that count volumes, by CSI driver.
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

// Vector returns the list as a vector, without resources that the problem does not have.
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

// Missing returns the first resource of the list, by name, that no machine has.
func (r *ResourceNames) Missing(list corev1.ResourceList) corev1.ResourceName {
	first := corev1.ResourceName("")
	for name, q := range list {
		if r.Nowhere[string(name)] && q.Sign() > 0 && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// SetDevices sets the vector's amounts of claimed devices.
func (r *ResourceNames) SetDevices(v capacity.Vector, room map[corev1.ResourceName]int64) {
	for d := range v {
		if name := corev1.ResourceName(r.Name(d)); IsClaimed(name) {
			v[d] = room[name]
		}
	}
}

// List is the reverse of Vector, without zero amounts.
func (r *ResourceNames) List(v capacity.Vector) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i, n := range v {
		if name := corev1.ResourceName(r.Name(i)); n != 0 {
			list[name] = Quantity(name, n)
		}
	}
	return list
}

// AttachPrefix starts the names of the resources that count a driver's volumes.
const AttachPrefix = "attachable-volumes-"

// AttachResource returns the resource that counts the volumes of the CSI driver on a node.
func AttachResource(driver string) corev1.ResourceName {
	return corev1.ResourceName(AttachPrefix + driver)
}

// DevicesPrefix starts the names of the resources that count devices which claims select.
const DevicesPrefix = "claimed-devices-"

// IsClaimed reports whether the resource counts devices which claims select.
func IsClaimed(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), DevicesPrefix) }

// IsPlanned reports whether the resource exists in plans only: no machine reports it.
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

// EvictionThreshold reads a threshold of the kubelet: a quantity, or a percentage of whole, where 100% means no threshold. usual replaces an
// empty or unreadable text.
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
