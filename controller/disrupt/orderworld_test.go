package disrupt_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/disrupt"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	os.Exit(playgroundtest.RunWith(m, playground.Config{Components: []string{playground.Etcd, playground.APIServer, playground.ControllerManager}}))
}

var errCrashed = errors.New("the process has ended")

// orderWorld is two nodes with a pod each that are to be replaced by one, on an API server in memory or on a real one. The
// test plays the cloud, the kubelets and the controller of claims.
type orderWorld struct {
	*clustertest.World
	pool       *v1.NodePool
	plan       *engine.Plan
	reconciler *disrupt.Reconciler

	// From the crashAt-th write on everything fails that the reconciler writes; if lost is set, that write is done and only
	// its answer is lost.
	writes, crashAt int
	lost            bool
	outside         bool                       // the test itself writes
	inPart          bool                       // one of the nodes has to stay
	before          func(o client.Object)      // called before the reconciler's writes
	list            func(list *corev1.PodList) // changes what lists of pods show
}

func (w *orderWorld) calls() interceptor.Funcs {
	write := func(o client.Object, do func() error) error {
		if w.outside {
			return do()
		}
		if w.before != nil {
			w.before(o)
		}
		if w.writes++; w.crashAt > 0 && w.writes >= w.crashAt {
			if w.writes == w.crashAt && w.lost {
				_ = do()
			}
			return errCrashed
		}
		return do()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.checkDeletion(ctx, c, o)
			return write(o, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok && w.list != nil {
				w.list(pods)
			}
			return err
		},
	}
}

// checkDeletion is the law of all replacements: nothing goes before what replaces it is ready.
func (w *orderWorld) checkDeletion(ctx context.Context, c client.WithWatch, o client.Object) {
	claim, ok := o.(*v1.NodeClaim)
	if !ok || w.outside {
		return
	}
	mark, marked := inventory.MarkOf(claim)
	for _, name := range mark.Replacements {
		replacement := &v1.NodeClaim{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, replacement); err != nil || marked && !v1.IsTrue(replacement, v1.ConditionInitialized) {
			w.Errorf("claim %s is deleted before its replacement %s is ready", claim.Name, name)
		}
	}
}

// objects are what every world starts from; names begin with the pool's.
func objects(name string) (pool *v1.NodePool, all []client.Object) {
	pool = clustertest.Pool(name)
	pool.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
	all = []client.Object{pool}
	for _, suffix := range []string{"-a", "-b"} {
		claim, node := clustertest.Machine(pool, name+suffix, old)
		pod := clustertest.Bound(name+suffix+"-pod", "1", node.Name)
		pod.Spec.Containers[0].Image = "x"
		all = append(all, claim, node, pod)
	}
	return pool, all
}

func newOrderWorld(t *testing.T) *orderWorld {
	t.Helper()
	w := &orderWorld{}
	var all []client.Object
	w.pool, all = objects("general")
	w.World = clustertest.New(t, w.calls(), all...)
	w.prepare()
	return w
}

// newServerWorld is newOrderWorld on a real API server; what a test before has left is removed.
func newServerWorld(t *testing.T, name string) *orderWorld {
	t.Helper()
	rest := playgroundtest.Get(t).RESTConfig()
	rest.QPS = -1
	w := &orderWorld{outside: true}
	var all []client.Object
	w.pool, all = objects(name)
	w.World = clustertest.NewOn(t, rest, w.calls())
	t.Cleanup(w.clear)
	w.Put(w.pool)
	for _, o := range all[1:] {
		if claim, ok := o.(*v1.NodeClaim); ok {
			claim.OwnerReferences[0].UID = w.pool.UID
		}
		w.Put(o)
	}
	w.prepare()
	return w
}

func (w *orderWorld) prepare() {
	w.Helper()
	w.plan = w.decide()
	w.restart()
	w.outside = false
}

// decide plans the replacement of both nodes by what their pods need.
func (w *orderWorld) decide() *engine.Plan {
	w.Helper()
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	leaving := *snap
	leaving.NodeClaims = nil
	d := engine.Disruption{Reason: v1.Drifted}
	for _, c := range snap.NodeClaims {
		if c.Labels[v1.NodePoolLabelKey] != w.pool.Name {
			continue
		}
		d.Claims, d.Nodes = append(d.Claims, c.Name), append(d.Nodes, c.Status.NodeName)
		gone := c.DeepCopy()
		at := metav1.NewTime(snap.Now)
		gone.DeletionTimestamp = &at
		leaving.NodeClaims = append(leaving.NodeClaims, gone)
	}
	plan := provisioning.Plan(&leaving, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Launches[0].Pods) != 2 {
		w.Fatalf("want one machine for both pods, got %d launches, unplaced %v", len(plan.Launches), plan.Unplaced)
	}
	d.Replacements, d.Pods = plan.Launches, plan.Launches[0].Pods
	return &engine.Plan{Disruptions: []engine.Disruption{d}}
}

// restart begins a new process: all memory is lost. It does one thing at a time, so that its writes have an order.
func (w *orderWorld) restart() {
	w.crashAt = 0
	config := w.Cluster.Config
	w.Cluster = cluster.New(config)
	w.reconciler = disrupt.New(disrupt.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics, AtOnce: 1})
}

// begin carries the decision out.
func (w *orderWorld) begin() error {
	snap, err := w.Cluster.Snapshot(w)
	if err != nil {
		return err
	}
	return w.reconciler.CarryOut(w, snap, w.plan)
}

// pass makes a pass that decides by itself, and lets the world outside go on.
func (w *orderWorld) pass() error {
	err := w.reconciler.Reconcile(w)
	w.world()
	w.Clock.Step(time.Second)
	return err
}

// world is what the cloud, the kubelets, the controllers of workloads and that of claims do.
func (w *orderWorld) world() {
	w.Helper()
	w.outside = true
	defer func() { w.outside = false }()
	for _, c := range w.mine() {
		if c.DeletionTimestamp != nil {
			w.end(&c)
		} else if !v1.IsTrue(&c, v1.ConditionInitialized) {
			w.boot(&c)
		}
	}
}

// mine are the claims of this world's pool.
func (w *orderWorld) mine() []v1.NodeClaim {
	w.Helper()
	return slices.DeleteFunc(w.Claims(), func(c v1.NodeClaim) bool { return c.Labels[v1.NodePoolLabelKey] != w.pool.Name })
}

// boot starts a claim's machine.
func (w *orderWorld) boot(claim *v1.NodeClaim) {
	w.Helper()
	model, node := clustertest.Machine(w.pool, claim.Name, old)
	w.Put(node)
	claim.Status = model.Status
	w.Must(w.Client.Status().Update(w, claim))
}

// end drains a claim's node, whose pods' successors run on another node of the pool, if possible on a replacement, and lets both go.
func (w *orderWorld) end(claim *v1.NodeClaim) {
	w.Helper()
	var pods corev1.PodList
	w.Must(w.Client.List(w, &pods))
	for _, p := range pods.Items {
		if p.Spec.NodeName != claim.Name {
			continue
		}
		w.Must(w.Client.Delete(w, &p, client.GracePeriodSeconds(0)))
		others := w.mine()
		slices.SortStableFunc(others, func(a, b v1.NodeClaim) int {
			return cmp.Compare(len(b.Annotations[inventory.ReplacesAnnotation]), len(a.Annotations[inventory.ReplacesAnnotation]))
		})
		for _, other := range others {
			if other.DeletionTimestamp == nil && v1.IsTrue(&other, v1.ConditionInitialized) {
				successor := clustertest.Bound(p.Name+"-next", "1", other.Name)
				successor.Spec.Containers[0].Image = "x"
				w.Put(successor)
				break
			}
		}
	}
	node := &corev1.Node{}
	if err := w.Client.Get(w, client.ObjectKey{Name: claim.Name}, node); err == nil {
		w.let(node)
		w.Must(client.IgnoreNotFound(w.Client.Delete(w, node)))
	}
	w.let(claim)
}

// let takes all finalizers off an object.
func (w *orderWorld) let(o client.Object) {
	w.Helper()
	w.Must(client.IgnoreNotFound(w.Client.Patch(w, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
}

// clear removes everything of this world.
func (w *orderWorld) clear() {
	w.outside = true
	ctx := context.Background()
	w.Context = ctx
	var pods corev1.PodList
	w.Must(w.Client.List(ctx, &pods))
	for i := range pods.Items {
		w.Must(client.IgnoreNotFound(w.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))))
	}
	for _, c := range w.mine() {
		if c.DeletionTimestamp == nil {
			w.Must(client.IgnoreNotFound(w.Client.Delete(ctx, &c)))
			w.Must(client.IgnoreNotFound(w.Client.Get(ctx, client.ObjectKeyFromObject(&c), &c)))
		}
		w.end(&c)
	}
	w.Must(client.IgnoreNotFound(w.Client.Delete(ctx, w.pool)))
}

// check says what is wrong once nothing is in progress any more: either all was replaced, or nothing, or one node if inPart.
func (w *orderWorld) check() error {
	var old, fresh []string
	for _, c := range w.mine() {
		if _, marked := inventory.MarkOf(&c); marked || v1.GetCondition(&c, v1.ConditionDisruptionReason) != nil || c.DeletionTimestamp != nil {
			return fmt.Errorf("claim %s is marked or going", c.Name)
		}
		node := &corev1.Node{}
		if err := w.Client.Get(w, client.ObjectKey{Name: c.Name}, node); err != nil {
			return fmt.Errorf("claim %s has no node: %w", c.Name, err)
		}
		if closed(node) {
			return fmt.Errorf("node %s is still closed", node.Name)
		}
		if strings.HasSuffix(c.Name, "-a") || strings.HasSuffix(c.Name, "-b") {
			old = append(old, c.Name)
		} else {
			fresh = append(fresh, c.Name)
		}
	}
	if len(old) == 0 && len(fresh) == 1 || w.inPart && len(old) == 1 && len(fresh) == 1 || len(old) == 2 && len(fresh) == 0 {
		return nil
	}
	return fmt.Errorf("the claims %v stay, there are %v for them", old, fresh)
}

// settles runs passes until nothing is in progress.
func (w *orderWorld) settles() {
	w.Helper()
	var err error
	for range 12 {
		if failed := w.pass(); failed != nil {
			w.Fatalf("pass: %v", failed)
		}
		if err = w.check(); err == nil {
			return
		}
	}
	w.Error(err)
}

func (w *orderWorld) get(name string) (*v1.NodeClaim, *corev1.Node) {
	w.Helper()
	claim, node := &v1.NodeClaim{}, &corev1.Node{}
	if err := w.Client.Get(w, client.ObjectKey{Name: name}, claim); apierrors.IsNotFound(err) {
		claim = nil
	}
	if err := w.Client.Get(w, client.ObjectKey{Name: name}, node); apierrors.IsNotFound(err) {
		node = nil
	}
	return claim, node
}

// replacement is the one claim that replaces others, nil if there is none.
func (w *orderWorld) replacement() *v1.NodeClaim {
	w.Helper()
	for _, c := range w.mine() {
		if c.Annotations[inventory.ReplacesAnnotation] != "" {
			return &c
		}
	}
	return nil
}
