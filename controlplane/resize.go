package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	resourcehelper "k8s.io/component-helpers/resource"
)

// A resizer simulates the answers of kubelets to resizes in place, which KWOK does not support. It grants a resize that fits beside the sizes of
// the node's other pods, and defers other resizes until they fit. The API server refuses resizes that the node could never hold. A granted
// resize takes effect at once. The resizer ignores resizes of whole pods and of init containers.
type resizer struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	pods   cache.Indexer
	played labels.Selector // by annotations of the node
	queue  workqueue.TypedRateLimitingInterface[string]
	needed atomic.Bool // whether any pod was ever resized, because most clusters have no resizes
}

const podsByNode = "node"

// playResizes answers resizes until the context ends.
func playResizes(ctx context.Context, client kubernetes.Interface, played labels.Selector) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	onNodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}), informers.WithTransform(onlySizes))
	pods := onNodes.Core().V1().Pods().Informer()
	r := &resizer{
		client: client, nodes: factory.Core().V1().Nodes().Lister(), pods: pods.GetIndexer(), played: played,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 5*time.Second)),
	}
	err := pods.AddIndexers(cache.Indexers{podsByNode: func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil }})
	if err != nil {
		return err
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { r.changed(nil, o) }, UpdateFunc: r.changed, DeleteFunc: r.gone}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	onNodes.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	onNodes.WaitForCacheSync(ctx.Done())
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	go r.work(ctx)
	return nil
}

// onlySizes keeps the fields of a pod that a resize needs.
func onlySizes(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Generation: pod.Generation}}
	small.Spec.NodeName, small.Spec.Priority, small.Spec.Overhead = pod.Spec.NodeName, pod.Spec.Priority, pod.Spec.Overhead
	for _, c := range pod.Spec.InitContainers {
		small.Spec.InitContainers = append(small.Spec.InitContainers, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	for _, c := range pod.Spec.Containers {
		small.Spec.Containers = append(small.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	small.Status.Phase = pod.Status.Phase
	for _, s := range pod.Status.ContainerStatuses {
		if s.Resources != nil {
			small.Status.ContainerStatuses = append(small.Status.ContainerStatuses, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources})
		}
	}
	return small, nil
}

// changed queues the node of a changed pod, because the pod may be resized, or may have made room for other resizes.
func (r *resizer) changed(old, now any) {
	before, _ := old.(*corev1.Pod)
	pod := now.(*corev1.Pod)
	if wishes(pod) {
		r.needed.Store(true)
	}
	if r.needed.Load() && (before == nil || before.ResourceVersion != pod.ResourceVersion) {
		r.queue.Add(pod.Spec.NodeName)
	}
}

// wishes reports whether the pod's spec differs from the sizes of its containers.
func wishes(pod *corev1.Pod) bool { return !sameSizes(asGiven(pod), pod) }

func sameSizes(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(a, b corev1.Container) bool { return sameSize(a.Resources, b.Resources) })
}

func (r *resizer) gone(o any) {
	if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok && r.needed.Load() {
		r.queue.Add(pod.Spec.NodeName)
	}
}

func (r *resizer) work(ctx context.Context) {
	for {
		node, ended := r.queue.Get()
		if ended {
			return
		}
		if err := r.answer(ctx, node); err == nil || apierrors.IsNotFound(err) {
			r.queue.Forget(node)
		} else {
			r.queue.AddRateLimited(node)
		}
		r.queue.Done(node)
	}
}

// answer grants the resizes of the node that fit, by priority, and writes into the other pods why they wait.
func (r *resizer) answer(ctx context.Context, name string) error {
	node, err := r.nodes.Get(name)
	if err != nil || !r.played.Matches(labels.Set(node.Annotations)) {
		return err
	}
	objects, err := r.pods.ByIndex(podsByNode, name)
	if err != nil {
		return err
	}
	var wishing []*corev1.Pod
	given := corev1.ResourceList{}
	for _, o := range objects {
		pod := o.(*corev1.Pod)
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		has := asGiven(pod)
		add(given, resourcehelper.PodRequests(has, resourcehelper.PodResourcesOptions{}), 1)
		if wishes(pod) {
			wishing = append(wishing, pod)
		}
	}
	slices.SortFunc(wishing, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range wishing {
		if err := r.write(ctx, pod, judge(asGiven(pod), pod, given, node.Status.Allocatable)); err != nil {
			return err
		}
	}
	return nil
}

// asGiven returns the pod with the sizes that its containers have.
func asGiven(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.Containers = slices.Clone(pod.Spec.Containers)
	for i := range out.Spec.Containers {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == out.Spec.Containers[i].Name && s.Resources != nil {
				out.Spec.Containers[i].Resources = *s.Resources
			}
		}
	}
	return &out
}

// judge returns nil if the pod's resize fits. If not, it returns the condition with the reason. `given` is the sum of the sizes of all pods of the
// node. judge changes it by the resize.
func judge(has, pod *corev1.Pod, given, allocatable corev1.ResourceList) *corev1.PodCondition {
	had := resourcehelper.PodRequests(has, resourcehelper.PodResourcesOptions{})
	wants := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		want, has, all := wants[name], had[name], allocatable[name]
		used := given[name].DeepCopy()
		used.Sub(has)
		together := used.DeepCopy()
		together.Add(want)
		if want.Cmp(has) > 0 && together.Cmp(all) > 0 {
			return &corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, ObservedGeneration: pod.Generation,
				Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %s, used: %s, capacity: %s", name, want.String(), used.String(), all.String()),
			}
		}
	}
	add(given, wants, 1)
	add(given, had, -1)
	return nil
}

// write writes the present sizes, and the reason to wait, into the pod's status.
func (r *resizer) write(ctx context.Context, seen *corev1.Pod, why *corev1.PodCondition) error {
	pod, err := r.client.CoreV1().Pods(seen.Namespace).Get(ctx, seen.Name, metav1.GetOptions{})
	if err != nil || pod.UID != seen.UID || pod.Generation != seen.Generation || pod.DeletionTimestamp != nil {
		return err // another event will come for the pod
	}
	before, has := pod.Status.DeepCopy(), seen
	if why != nil {
		has = asGiven(seen)
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, c := range has.Spec.Containers {
			if c.Name == s.Name {
				s.AllocatedResources = c.Resources.Requests
				s.Resources = &corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits}
			}
		}
	}
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		if why != nil && c.Type == why.Type && c.Reason == why.Reason {
			why.LastTransitionTime = c.LastTransitionTime
		}
		return c.Type == corev1.PodResizePending
	})
	if why != nil {
		if why.LastTransitionTime.IsZero() {
			why.LastTransitionTime = metav1.Now()
		}
		pod.Status.Conditions = append(pod.Status.Conditions, *why)
	}
	if apiequality.Semantic.DeepEqual(before, &pod.Status) {
		return nil
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func sameSize(a, b corev1.ResourceRequirements) bool {
	return apiequality.Semantic.DeepEqual(a.Requests, b.Requests) && apiequality.Semantic.DeepEqual(a.Limits, b.Limits)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// add adds a multiple of a list to another list.
func add(into, list corev1.ResourceList, times int64) {
	for name, q := range list {
		q = q.DeepCopy()
		q.Mul(times)
		sum := into[name]
		sum.Add(q)
		into[name] = sum
	}
}
