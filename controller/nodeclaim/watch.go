package nodeclaim

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Register adds the reconcilers to the manager. Every event that can change a claim's next step wakes them.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	lifecycle := ctrl.NewControllerManagedBy(mgr).Named("nodeclaim.lifecycle").
		WithOptions(options(mgr, "nodeclaim.lifecycle", "NodeClaim", cmp.Or(r.AtOnce, 100))).For(&v1.NodeClaim{})
	for _, s := range r.Sources() {
		lifecycle = lifecycle.Watches(s.Kind, s.Handler, changes(s.Matters))
	}
	lifecycle = lifecycle.WatchesRawSource(source.Func(r.WakeByTraits))
	if err := lifecycle.Complete(r); err != nil {
		return err
	}
	termination := ctrl.NewControllerManagedBy(mgr).Named("node.termination").
		WithOptions(options(mgr, "node.termination", "Node", 10)).For(&corev1.Node{}, changes(nodeLeaves))
	for _, s := range (NodeReconciler{r}).Sources()[1:] {
		termination = termination.Watches(s.Kind, s.Handler, changes(s.Matters))
	}
	return termination.Complete(NodeReconciler{r})
}

// Source is a kind of object that wakes a reconciler of other objects.
type Source struct {
	Kind    client.Object
	Handler handler.EventHandler
	// Matters reports whether an update wakes the reconciler; every other event does.
	Matters func(before, after client.Object) bool
}

// Sources lists the kinds that wake the reconciler of claims, beside claims.
func (r *Reconciler) Sources() []Source {
	out := []Source{
		{&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.claimsOfNode), nodeChanged},
		{&corev1.Pod{}, r.podHandler(), podChanged},
		{&storagev1.VolumeAttachment{}, handler.EnqueueRequestsFromMapFunc(r.claimsOfAttachment), attachmentChanged},
		{&v1.NodePool{}, handler.EnqueueRequestsFromMapFunc(r.claimsOfPool), poolChanged},
	}
	if r.Cluster != nil && r.Cluster.DeviceClaims() {
		out = append(out, Source{&resourcev1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(r.claimsOfSlice), sliceChanged})
	}
	return out
}

// Sources lists the kinds that wake the reconciler of nodes without a claim, nodes first.
func (r NodeReconciler) Sources() []Source {
	return []Source{
		{&corev1.Node{}, &handler.EnqueueRequestForObject{}, nodeLeaves},
		{&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.leavingNodeOfPod), podChanged},
	}
}

// options names the object of each log line as the other loops do, under its kind.
func options(mgr ctrl.Manager, name, kind string, atOnce int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: atOnce,
		LogConstructor: func(request *reconcile.Request) logr.Logger {
			logger := mgr.GetLogger().WithName(name)
			if request != nil {
				logger = logger.WithValues(kind, request.Name)
			}
			return logger
		},
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, time.Minute),
	}
}

// changes passes every event except updates that do not matter.
func changes(matters func(before, after client.Object) bool) builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return matters(e.ObjectOld, e.ObjectNew) }})
}

// nodeChanged leaves out heartbeats.
func nodeChanged(before, after client.Object) bool {
	a, b := before.(*corev1.Node), after.(*corev1.Node)
	return !equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(a.Finalizers, b.Finalizers) ||
		!equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) ||
		!equality.Semantic.DeepEqual(a.Annotations, b.Annotations) ||
		!a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(a.Spec, b.Spec) ||
		!equality.Semantic.DeepEqual(a.Status.Capacity, b.Status.Capacity) ||
		!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable) ||
		ready(a) != ready(b)
}

func ready(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func nodeLeaves(_, after client.Object) bool { return isLeaving(after.(*corev1.Node)) }

// podChanged passes events that advance a drain, or count as a pod event.
func podChanged(before, after client.Object) bool {
	a, b := before.(*corev1.Pod), after.(*corev1.Pod)
	return a.Spec.NodeName != b.Spec.NodeName ||
		!a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		kube.IsTerminal(a) != kube.IsTerminal(b) ||
		a.Annotations[v1.DoNotDisruptAnnotationKey] != b.Annotations[v1.DoNotDisruptAnnotationKey]
}

// sliceChanged passes updates that may complete a pool of devices.
func sliceChanged(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration()
}

// attachmentChanged passes no update, because only the deletion of an attachment matters.
func attachmentChanged(_, _ client.Object) bool { return false }

// poolChanged passes changes of the pool's spec and of its fingerprint. The fingerprint changes a moment after the spec, and only then do
// claims differ from the fingerprint.
func poolChanged(before, after client.Object) bool {
	if before.GetGeneration() != after.GetGeneration() {
		return true
	}
	for _, key := range []string{v1.NodePoolHashAnnotationKey, v1.NodePoolHashVersionAnnotationKey} {
		if before.GetAnnotations()[key] != after.GetAnnotations()[key] {
			return true
		}
	}
	return false
}

// podHandler wakes the claims of the pod's node, and remembers when a pod was deleted there.
func (r *Reconciler) podHandler() handler.EventHandler {
	wake := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request], gone bool) {
		pod := o.(*corev1.Pod)
		for _, request := range r.claimsOfNodeName(ctx, pod.Spec.NodeName) {
			if gone && !kube.OwnedByDaemonSet(pod) {
				r.memories.of(request.Name).podGone(inventory.IsBrief(pod), r.Cluster.Clock.Now())
			}
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object, q, false)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.ObjectNew, q, false)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object, q, true)
		},
	}
}

func (r *Reconciler) claimsOfNode(ctx context.Context, o client.Object) []reconcile.Request {
	id := o.(*corev1.Node).Spec.ProviderID
	if id == "" {
		return nil
	}
	return r.claimsBy(ctx, cluster.ClaimsByProviderID, id)
}

func (r *Reconciler) claimsOfPool(ctx context.Context, o client.Object) []reconcile.Request {
	return r.claimsBy(ctx, cluster.ClaimsByNodePool, o.GetName())
}

// WakeByTraits wakes the claims of a class after a change of the traits that its machines must have, because they may drift.
func (r *Reconciler) WakeByTraits(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.Cluster.OnTraitsChange(func(class v1.NodeClassReference) {
		var list v1.NodeClaimList
		if err := r.Cluster.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return // they are looked at from time to time anyway
		}
		for i := range list.Items {
			if ref := list.Items[i].Spec.NodeClassRef; ref != nil && *ref == class {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	})
	return nil
}

func (r *Reconciler) claimsOfAttachment(ctx context.Context, o client.Object) []reconcile.Request {
	return r.claimsOfNodeName(ctx, o.(*storagev1.VolumeAttachment).Spec.NodeName)
}

func (r *Reconciler) claimsOfSlice(ctx context.Context, o client.Object) []reconcile.Request {
	slice, name := o.(*resourcev1.ResourceSlice), ""
	if slice.Spec.NodeName != nil {
		name = *slice.Spec.NodeName
	}
	for _, owner := range slice.OwnerReferences {
		if name == "" && owner.Kind == "Node" {
			name = owner.Name
		}
	}
	return r.claimsOfNodeName(ctx, name)
}

func (r *Reconciler) claimsOfNodeName(ctx context.Context, name string) []reconcile.Request {
	if node := r.cachedNode(ctx, name); node != nil {
		return r.claimsOfNode(ctx, node)
	}
	return nil // a deleted node wakes its claim itself
}

// cachedNode returns the cache's own copy of a node, nil if there is none.
func (r *Reconciler) cachedNode(ctx context.Context, name string) *corev1.Node {
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	if err := r.Cluster.Client.Get(ctx, client.ObjectKey{Name: name}, node, uncopied()); err != nil {
		return nil
	}
	return node
}

// uncopied reads the cache's own copy, which must not be changed.
func uncopied() client.GetOption {
	yes := true
	return &client.GetOptions{UnsafeDisableDeepCopy: &yes}
}

func (r *Reconciler) claimsBy(ctx context.Context, field, value string) []reconcile.Request {
	var claims v1.NodeClaimList
	if err := r.Cluster.Client.List(ctx, &claims, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // reading a cache that runs does not fail
	}
	var out []reconcile.Request
	for i := range claims.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
	}
	return out
}

func (r *Reconciler) leavingNodeOfPod(ctx context.Context, o client.Object) []reconcile.Request {
	node := r.cachedNode(ctx, o.(*corev1.Pod).Spec.NodeName)
	if node == nil || !isLeaving(node) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(node)}}
}
