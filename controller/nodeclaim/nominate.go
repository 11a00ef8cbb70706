package nodeclaim

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/nomination"
)

// writesAtOnce bounds the writes to pods that one opening has under way, because all should come as close together as the API server
// allows.
const writesAtOnce = 64

// podView finds the newest version of pods, even if the cache does not show their nominations yet. Its callers look for the same pods again
// and again, so podView copies only changed pods.
type podView struct {
	*application
	seen    map[types.UID]*corev1.Pod
	next    corev1.Pod
	mu      sync.Mutex // guards what follows
	written map[types.UID]*corev1.Pod
}

// viewOf returns a view of the pods of nodes that will open.
func (a *application) viewOf(nodes []nomination.Opening) *podView {
	v := &podView{application: a, seen: map[types.UID]*corev1.Pod{}, written: map[types.UID]*corev1.Pod{}}
	for _, n := range nodes {
		for _, pod := range n.Pods {
			v.seen[pod.UID] = pod
		}
	}
	return v
}

// find looks for one of these pods.
func (v *podView) find(ctx context.Context, uid types.UID) nomination.PodSight {
	pod := v.seen[uid]
	v.next = corev1.Pod{}
	if err := v.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(pod), &v.next, uncopied()); err != nil || v.next.UID != uid {
		if client.IgnoreNotFound(err) != nil {
			log.FromContext(ctx).Error(err, "could not find a pod", "Pod", pod.Namespace+"/"+pod.Name)
		}
		return nomination.PodSight{}
	}
	if v.next.ResourceVersion != pod.ResourceVersion {
		pod = new(corev1.Pod)
		*pod = v.next
		v.seen[uid] = pod
	}
	if ours := v.written[uid]; ours != nil && cluster.Older(pod, ours) {
		return nomination.PodSight{Pod: ours, Unseen: true}
	}
	delete(v.written, uid)
	return nomination.PodSight{Pod: pod}
}

// nominate writes nominations. It does not repeat a failed one, because nominations are only advice.
func (v *podView) nominate(ctx context.Context, nominations []engine.Nomination) {
	var group errgroup.Group
	group.SetLimit(cmp.Or(v.WritesAtOnce, writesAtOnce))
	var failed []engine.Nomination
	var first error
	for _, n := range nominations {
		group.Go(func() error {
			written, err := v.Cluster.Nominate(ctx, n.Pod, n.Node)
			v.mu.Lock()
			defer v.mu.Unlock()
			switch {
			case err != nil && !cluster.Expected(err):
				failed, first = append(failed, n), cmp.Or(first, err)
			case err == nil && written != nil:
				v.written[n.Pod.UID] = written
			}
			return nil
		})
	}
	_ = group.Wait() // of all errors the first is told
	if len(failed) > 0 {
		n := failed[0]
		log.FromContext(ctx).Error(first, "could not nominate pods", "pods", len(failed), "Pod", n.Pod.Namespace+"/"+n.Pod.Name, "Node", n.Node)
	}
}

// withdraw removes the nominations of pods to nodes that leave.
func (a *application) withdraw(ctx context.Context, nodes []string) {
	unbound, err := a.podsBy(ctx, "")
	if err != nil {
		log.FromContext(ctx).Error(err, "could not take nominations back")
		return
	}
	var writes []engine.Nomination
	for _, pod := range unbound {
		if slices.Contains(nodes, pod.Status.NominatedNodeName) {
			writes = append(writes, engine.Nomination{Pod: pod})
		}
	}
	a.viewOf(nil).nominate(ctx, writes)
}

// nominees returns the nodes that will open, with only the pods that are worth a nomination.
func (a *application) nominees(ctx context.Context, group []nomination.Opening) []nomination.Opening {
	planned := 0
	for _, o := range group {
		planned += len(o.Pods)
	}
	unbound, err := a.podsBy(ctx, "")
	queue := 0
	for _, pod := range unbound {
		if kube.IsQueued(pod) {
			queue++
		}
	}
	if err != nil || !nomination.NominationsAreDear(planned, queue) {
		return group // reading a cache that runs does not fail
	}
	few := make([]nomination.Opening, len(group))
	for i, o := range group {
		few[i].Node = o.Node
	}
	snap, err := a.Cluster.Snapshot(ctx)
	if err == nil {
		few, err = controller.Compute(ctx, func() []nomination.Opening { return nomination.NominateFew(snap, a.Options, group) })
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "could not find out which pods to nominate, nominated none", "nodes", len(group), "pods", planned)
	}
	return few
}

// plannedPods returns the planned pods of the claim that still wait for a node.
func (a *application) plannedPods(ctx context.Context, claim *v1.NodeClaim) []*corev1.Pod {
	var out []*corev1.Pod
	for _, uid := range kube.PlannedPods(claim) {
		pods, err := a.podsWith(ctx, cluster.PodsByUID, uid)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not find a pod", "uid", uid)
		}
		out = append(out, pods...)
	}
	return slices.DeleteFunc(out, func(pod *corev1.Pod) bool { return !kube.IsQueued(pod) })
}
