package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/parallel"
	"tenon.sh/engine/volume"
)

// podReader reads pods. It keeps data that several pods share only once, by its name or its text.
type podReader struct {
	podsByNode        map[string]*NodePods
	kinds             map[string]*LabelClass
	requestClasses    map[string]*RequestClass
	constraintClasses map[string]*ConstraintClass
	works             map[workloadName]*workloadInfo
	Owned             map[string]*OwnerInfo
	// templates are the pod templates of owners, by the owners' keys; all readers of a cache share them.
	templates map[string]ownerTemplate
	// claimed are the resources that pods do not request from a node, because they represent claimed devices; nil for none.
	claimed *kube.DeviceResources
	key     KeyWriter
}

func newPodReader() podReader {
	return podReader{
		podsByNode: map[string]*NodePods{}, kinds: map[string]*LabelClass{}, requestClasses: map[string]*RequestClass{}, constraintClasses: map[string]*ConstraintClass{},
		works: map[workloadName]*workloadInfo{}, Owned: map[string]*OwnerInfo{},
	}
}

// fewUnread is a number of pods for which a further goroutine is not worth its cost.
const fewUnread = 1000

// readAll reads pods that the cache does not know yet.
func (cache *Cache) readAll(pods []*corev1.Pod, threads int) {
	infos, first := make([]*PodInfo, len(pods)), cache.next+1
	cache.next += uint64(len(pods))
	ranges := parallel.Ranges(len(pods), threads, fewUnread)
	readers, parts := make([]*podReader, len(ranges)), make([]func(), len(ranges))
	for i, x := range ranges {
		reader := &cache.podReader
		if i > 0 {
			other := newPodReader()
			other.templates, other.claimed = cache.templates, cache.claimed
			reader = &other
		}
		readers[i] = reader
		parts[i] = func() {
			for j := x.From; j < x.To; j++ {
				infos[j] = reader.read(pods[j], first+uint64(j))
				if len(ranges) > 1 {
					reader.readAhead(infos[j])
				}
			}
		}
	}
	parallel.Run(parts...)
	for i, x := range ranges {
		if i > 0 {
			cache.join(readers[i], infos[x.From:x.To])
		}
	}
	for i, pod := range pods {
		cache.Pods[pod] = infos[i]
	}
}

// join adds the data of another reader to this one's, and points the infos to this one's.
func (r *podReader) join(other *podReader, infos []*PodInfo) {
	nodes, kinds, works := joined(r.podsByNode, other.podsByNode), joined(r.kinds, other.kinds), joined(r.works, other.works)
	needs, asks, owned := joined(r.requestClasses, other.requestClasses), joined(r.constraintClasses, other.constraintClasses), joined(r.Owned, other.Owned)
	for _, info := range infos {
		info.node, info.Labels, info.requests, info.nextRequests, info.constraints = nodes[info.node], kinds[info.Labels], needs[info.requests], needs[info.nextRequests], asks[info.constraints]
		info.workload, info.Owner = works[info.workload], owned[info.Owner]
	}
}

// joined adds to mine each entry of others that mine lacks. It returns, for each value in others, the value of mine with the same key.
func joined[K comparable, V any](mine, others map[K]*V) map[*V]*V {
	out := make(map[*V]*V, len(others))
	for k, v := range others {
		if _, known := mine[k]; !known {
			mine[k] = v
		}
		out[v] = mine[k]
	}
	return out
}

// hashOf returns a hash of the pod's identity and state. It uses the resource version for the state, because the API server changes the version with
// every change.
func hashOf(pod *corev1.Pod) uint64 {
	d := kube.NewDigest().Text(pod.Namespace).Text(pod.Name).Text(string(pod.UID)).Text(pod.ResourceVersion)
	return kube.Mixed(uint64(d)) // because sums of hashes identify sets of pods
}

// read reads a pod, which gets this id.
func (r *podReader) read(pod *corev1.Pod, number uint64) *PodInfo {
	info := &PodInfo{
		Pod: pod, id: kube.Mixed(number), hash: hashOf(pod), counts: !kube.IsTerminal(pod), Ending: kube.IsTerminating(pod), Mounts: volume.HasVolumes(&pod.Spec),
		Labels: r.kindOf(pod), event: podEvent(pod), brief: IsBrief(pod), DaemonKey: daemonKey(pod),
		created: pod.CreationTimestamp.Time, boundAt: BoundAt(pod), weight: min(max(kube.EvictionCost(pod), 0.1), 10),
	}
	if name := ownerKey(pod); name != "" {
		info.Owner = r.ownerNamed(name)
	}
	if w, revision, ok := revisionOf(pod); ok {
		info.workload, info.revision = r.workloadOf(w), revision
	}
	ports, a := len(kube.HostPortsOf(&pod.Spec)) > 0, pod.Spec.Affinity
	info.particular = a != nil && a.PodAntiAffinity != nil || ports || info.Mounts
	info.Apart = a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || ports || info.Mounts
	info.Drainable = !kube.IsMirror(pod) && !kube.ToleratesDisruption(pod)
	_, info.Guarded = pod.Annotations[v1.DoNotDisruptAnnotationKey]
	if pod.Spec.NodeName != "" {
		info.node = r.podsByNode[pod.Spec.NodeName]
		if info.node == nil {
			info.node = &NodePods{}
			r.podsByNode[pod.Spec.NodeName] = info.node
		}
	}
	return info
}

// readAhead reads data that is needed of most running pods.
func (r *podReader) readAhead(info *PodInfo) {
	if info.node == nil || !info.counts || !info.RequestProblem().OK() {
		return
	}
	r.NextRequests(info)
	r.RequestsFor(info)
	if !info.Mounts {
		r.ConstraintsOf(info)
	}
}

func (r *podReader) kindOf(pod *corev1.Pod) *LabelClass {
	key := r.key.kind(pod)
	k, ok := r.kinds[string(key)]
	if !ok {
		k = &LabelClass{Sample: pod}
		r.kinds[string(key)] = k
	}
	return k
}

func (r *podReader) ownerNamed(name string) *OwnerInfo {
	o := r.Owned[name]
	if o == nil {
		o = &OwnerInfo{Name: name}
		r.Owned[name] = o
	}
	return o
}

func (r *podReader) workloadOf(name workloadName) *workloadInfo {
	w := r.works[name]
	if w == nil {
		w = &workloadInfo{name: name}
		r.works[name] = w
	}
	return w
}

// RequestsFor returns the pod's requests.
func (r *podReader) RequestsFor(info *PodInfo) *RequestClass {
	if info.requests == nil {
		info.requests = r.readRequests(info.Pod)
	}
	return info.requests
}

// NextRequests returns the requests of the pod's successor.
func (r *podReader) NextRequests(info *PodInfo) *RequestClass {
	if info.nextRequests == nil {
		if s := r.SuccessorOf(info); s == info.Pod {
			info.nextRequests = r.RequestsFor(info)
		} else {
			info.nextRequests = r.readRequests(s)
		}
	}
	return info.nextRequests
}

// SuccessorOf returns the pod that needs a place if the info's pod is to move (see successor).
func (r *podReader) SuccessorOf(info *PodInfo) *corev1.Pod {
	if info.Owner == nil {
		return successor(info.Pod, ownerTemplate{})
	}
	return successor(info.Pod, r.templates[info.Owner.Name])
}

func (r *podReader) readRequests(pod *corev1.Pod) *RequestClass {
	key := r.key.requests(pod)
	n, ok := r.requestClasses[string(key)]
	if !ok {
		n = &RequestClass{Text: string(key), List: kube.PodRequests(pod)}
		n.Devices = r.claimed.TakeFrom(n.List)
		r.requestClasses[n.Text] = n
	}
	return n
}

// ConstraintsOf returns the constraints of a pod without volumes, resources aside.
func (r *podReader) ConstraintsOf(info *PodInfo) *ConstraintClass {
	if info.constraints != nil {
		return info.constraints
	}
	key := r.key.Constraints(info.Pod, info.Pod.Spec.TopologySpreadConstraints, &volume.PodVolumes{})
	a, ok := r.constraintClasses[string(key)]
	if !ok {
		a = &ConstraintClass{string(key)}
		r.constraintClasses[a.Text] = a
	}
	info.constraints = a
	return a
}

// ReadMovable finds the pods of the node that would need another machine.
func (r *NodePods) ReadMovable() {
	if r.movableRead {
		return
	}
	r.movableRead = true
	for _, info := range r.Infos {
		if kube.IsReschedulable(info.Pod) {
			r.Movable, r.Movers = append(r.Movable, info.Pod), append(r.Movers, info)
		}
	}
}

// DaemonKeys names the DaemonSets that have a pod on the node.
func (r *NodePods) DaemonKeys() []string {
	if !r.daemonsRead {
		r.daemonsRead = true
		for _, info := range r.Infos {
			if key := info.DaemonKey; key != "" && !slices.Contains(r.daemons, key) {
				r.daemons = append(r.daemons, key)
			}
		}
	}
	return r.daemons
}

// daemonKey returns the namespace and name of the pod's DaemonSet. It returns "" if there is none.
func daemonKey(pod *corev1.Pod) string {
	for _, o := range pod.OwnerReferences {
		if o.Kind == "DaemonSet" && o.APIVersion == "apps/v1" {
			return pod.Namespace + "/" + o.Name
		}
	}
	return ""
}
