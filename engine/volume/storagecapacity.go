package volume

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
)

// A driver with storageCapacity in its CSIDriver publishes its free storage in CSIStorageCapacity objects, each for some nodes. kube-scheduler
// puts a pod on a node only if one of the node's objects has as much as the pod's claim requests, and does not add up the requests of several
// claims. No such object exists for future machines. If a driver's storage is inside of machines, new ones are expected to start with the storage
// that nodes of their type started with.

// storagePatience is the time after a node's creation in which its driver may still publish its first storage.
const storagePatience = 5 * time.Minute

// StorageLeft is the free storage of a driver for a class.
type StorageLeft struct {
	class string
	zones []leftIn // for labels that are known before a launch
	nodes map[string]resource.Quantity
	// local is true if the driver distinguishes single nodes, or has published nothing yet. Then judged are the nodes whose storage is known,
	// and had is the most that nodes of an instance type started with.
	local  bool
	judged []string
	had    map[string]resource.Quantity
	hadOn  map[string]resource.Quantity // by node
}

// leftIn is the free storage for nodes with these labels.
type leftIn struct {
	rules []requirement.Expression
	left  resource.Quantity
}

// storageLeft returns the free storage of the class's driver. It returns nil if the driver does not publish it.
func (r *Reader) storageLeft(class *storagev1.StorageClass) *StorageLeft {
	if !r.tracked[class.Provisioner] {
		return nil
	}
	out := r.left[class.Name]
	if out == nil {
		out = r.readStorageLeft(class)
		r.left[class.Name] = out
	}
	return out
}

func (r *Reader) readStorageLeft(class *storagev1.StorageClass) *StorageLeft {
	out := &StorageLeft{class: class.Name, nodes: map[string]resource.Quantity{}, had: map[string]resource.Quantity{}, hadOn: map[string]resource.Quantity{}}
	index, covered, any := newNodeIndex(r.snapshot.Nodes), map[string]bool{}, false
	for _, c := range r.snapshot.CSIStorageCapacities {
		if c.StorageClassName != class.Name {
			continue
		}
		any = true
		if c.NodeTopology == nil || kube.SelectorProblem(c.NodeTopology) != "" { // no node has access
			continue
		}
		rules, ok := kube.Intersect(kube.SelectorRules(c.NodeTopology))
		if !ok {
			continue
		}
		left := resource.Quantity{}
		switch {
		case c.MaximumVolumeSize != nil:
			left = *c.MaximumVolumeSize
		case c.Capacity != nil:
			left = *c.Capacity
		}
		if !slices.ContainsFunc(rules, func(e requirement.Expression) bool { return !r.isKnownEarly(e.Key) }) {
			out.zones = append(out.zones, leftIn{rules, left})
			continue
		}
		out.local = true
		for _, n := range index.matching(rules) {
			covered[n.Name] = true
			if have, known := out.nodes[n.Name]; !known || have.Cmp(left) < 0 {
				out.nodes[n.Name] = left
			}
		}
	}
	if out.local = out.local || !any; out.local {
		out.learn(r, index, covered)
	}
	return out
}

// learn computes the storage of each node before volumes were made on it, and the most that nodes of each instance type had.
func (l *StorageLeft) learn(r *Reader, index *nodeIndex, covered map[string]bool) {
	for _, n := range r.snapshot.Nodes {
		if covered[n.Name] || r.snapshot.Now.Sub(n.CreationTimestamp.Time) >= storagePatience {
			l.judged = append(l.judged, n.Name)
		}
	}
	l.hadOn = maps.Clone(l.nodes)
	for _, pv := range r.snapshot.PersistentVolumes {
		if VolumeClass(pv) != l.class {
			continue
		}
		for _, term := range kube.VolumeTerms(pv) {
			if on := index.matching(kube.ExpressionsOf(term, kube.AsWritten)); len(on) == 1 {
				if sum, known := l.hadOn[on[0].Name]; known {
					sum.Add(pv.Spec.Capacity[corev1.ResourceStorage])
					l.hadOn[on[0].Name] = sum
				}
			}
		}
	}
	for _, n := range r.snapshot.Nodes {
		kind, q := n.Labels[corev1.LabelInstanceTypeStable], l.hadOn[n.Name]
		if have, known := l.had[kind]; covered[n.Name] && kind != "" && (!known || have.Cmp(q) < 0) {
			l.had[kind] = q
		}
	}
}

// isKnownEarly reports whether a machine's value of the label is known before the machine is launched.
func (r *Reader) isKnownEarly(key string) bool {
	key = v1.NormalizeLabel(key)
	return key != corev1.LabelHostname && (slices.Contains(v1.WellKnownLabels(), key) ||
		slices.ContainsFunc(r.snapshot.NodePools, func(p *v1.NodePool) bool {
			_, given := p.Spec.Template.Labels[key]
			return given || slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(q v1.Requirement) bool { return v1.NormalizeLabel(q.Key) == key })
		}))
}

// placesFor returns the terms of nodes with enough free storage. It returns nil if any node has enough, and false if no node has enough.
func (l *StorageLeft) placesFor(r *Reader, size resource.Quantity) ([][]requirement.Expression, bool) {
	var places [][]requirement.Expression
	for _, z := range l.zones {
		if z.left.Cmp(size) < 0 {
			continue
		}
		if len(z.rules) == 0 {
			return nil, true
		}
		var term []requirement.Expression
		for _, e := range z.rules {
			term = append(term, r.expression(e.Key, corev1.NodeSelectorOperator(e.Op), e.Values))
		}
		places = append(places, term)
	}
	if !l.local {
		return bounded(kube.Alternatives(places)), len(places) > 0
	}
	var enough, small []string
	for name, left := range l.nodes {
		if left.Cmp(size) >= 0 {
			enough = append(enough, name)
		}
	}
	for kind, had := range l.had {
		if had.Cmp(size) < 0 {
			small = append(small, kind)
		}
	}
	slices.Sort(enough)
	slices.Sort(small)
	if len(enough) > 0 {
		places = append(places, []requirement.Expression{requirement.Expect(kube.NodeNameKey, requirement.In, enough)})
	}
	var fresh []requirement.Expression
	if len(l.judged) > 0 {
		fresh = append(fresh, requirement.Expect(kube.NodeNameKey, requirement.NotIn, slices.Clone(l.judged)))
	}
	if len(small) > 0 {
		fresh = append(fresh, requirement.Expect(corev1.LabelInstanceTypeStable, requirement.NotIn, small))
	}
	if len(fresh) == 0 {
		return nil, true
	}
	folded, _ := kube.Intersect(fresh)
	return bounded(kube.Alternatives(append(places, folded))), true
}

// limitToStorage removes the places without enough storage from those where the claim's volume can be made.
func (r *Reader) limitToStorage(out *Claim, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) {
	size, asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	left := r.storageLeft(class)
	if !out.Makes || !asked || left == nil {
		return
	}
	places, ok := left.placesFor(r, size)
	if ok {
		places, ok = kube.Combine(out.Places, places, MostAlternatives)
	}
	out.Storage = fmt.Sprintf("its storage class %s has %s left only", class.Name, size.String())
	if out.Places, out.Makes = places, ok; !ok {
		out.Problem = fmt.Sprintf("its storage class %s has %s left nowhere where it may make volumes: %s", class.Name, size.String(), left.most())
	}
}

// most describes the largest free amount in the class's zones.
func (l *StorageLeft) most() string {
	var most resource.Quantity
	for _, z := range l.zones {
		if most.Cmp(z.left) < 0 {
			most = z.left
		}
	}
	return fmt.Sprintf("its CSIStorageCapacity objects say at most %s", most.String())
}

// TooSmall describes a claim of the pod that requests more storage than the node started with. It returns "" if there is none, or if the storage at
// the start is not known.
func (r *Reader) TooSmall(pod *corev1.Pod, node string) string {
	for i := range pod.Spec.Volumes {
		claim, id, problem := r.ClaimOf(pod, &pod.Spec.Volumes[i])
		if claim == nil || problem != "" || claim.Spec.VolumeName != "" {
			continue
		}
		class := r.classes[claimClass(claim)]
		if class == nil {
			continue
		}
		left := r.storageLeft(class)
		size, asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if left == nil || !left.local || !asked || !slices.Contains(left.judged, node) {
			continue
		}
		if had := left.hadOn[node]; had.Cmp(size) < 0 {
			return fmt.Sprintf("the storage class %s has %s for volumes on it, and persistent volume claim %s requests %s", class.Name, had.String(), id, size.String())
		}
	}
	return ""
}

// nodeIndex finds nodes by their labels.
type nodeIndex struct {
	nodes []*corev1.Node
	by    map[string]map[string][]*corev1.Node // by label and value, filled on demand
}

func newNodeIndex(nodes []*corev1.Node) *nodeIndex {
	return &nodeIndex{nodes, map[string]map[string][]*corev1.Node{}}
}

// matching lists the nodes that meet all rules.
func (x *nodeIndex) matching(rules []requirement.Expression) []*corev1.Node {
	candidates := x.nodes
	for _, e := range rules {
		if e.Op == requirement.In && len(e.Values) == 1 {
			if found := x.having(e.Key, e.Values[0]); len(found) < len(candidates) {
				candidates = found
			}
		}
	}
	var out []*corev1.Node
	for _, n := range candidates {
		if !slices.ContainsFunc(rules, func(e requirement.Expression) bool {
			if e.Key == kube.NodeNameKey {
				return !e.Admits(n.Name, true)
			}
			value, there := n.Labels[e.Key]
			return !e.Admits(value, there)
		}) {
			out = append(out, n)
		}
	}
	return out
}

func (x *nodeIndex) having(key, value string) []*corev1.Node {
	if key == kube.NodeNameKey {
		return x.nodes
	}
	values := x.by[key]
	if values == nil {
		values = map[string][]*corev1.Node{}
		for _, n := range x.nodes {
			if v, there := n.Labels[key]; there {
				values[v] = append(values[v], n)
			}
		}
		x.by[key] = values
	}
	return values[value]
}
