package interruption_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/interruption"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider"
)

var old = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// mailbox is a cloud's queue of notices.
type mailbox struct {
	mu      sync.Mutex // guards notices
	notices []provider.Notice
	refuses error // every acknowledgement
}

func (m *mailbox) Notices(context.Context) ([]provider.Notice, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notices), nil
}

func (m *mailbox) Acknowledge(_ context.Context, notice provider.Notice) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses != nil {
		return m.refuses
	}
	m.notices = slices.DeleteFunc(m.notices, func(n provider.Notice) bool { return n.ID == notice.ID })
	return nil
}

func newReconciler(w *clustertest.World, m *mailbox, hurry func()) *interruption.Reconciler {
	config := interruption.Config{Cluster: w.Cluster, Notifier: m, Recorder: w.Recorder, Metrics: w.Metrics}
	if hurry != nil {
		config.Hurry = func(then func()) {
			hurry()
			if then != nil {
				then()
			}
		}
	}
	return interruption.New(config)
}

// act makes a pass of each loop.
func act(w *clustertest.World, r *interruption.Reconciler) error {
	if err := r.Reconcile(w); err != nil {
		return err
	}
	return r.Leave(w)
}

func spot(n int) (m *mailbox, objects []client.Object) {
	pool := clustertest.Pool("general")
	m = &mailbox{}
	objects = []client.Object{pool}
	for i := range n {
		claim, node := clustertest.Machine(pool, fmt.Sprintf("general-%d", i), old)
		claim.Labels[v1.CapacityTypeLabelKey], node.Labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeSpot, v1.CapacityTypeSpot
		pod := clustertest.Bound(fmt.Sprintf("pod-%d", i), "1", node.Name)
		objects = append(objects, claim, node, pod)
		m.notices = append(m.notices, provider.Notice{ID: node.Name, Machine: engine.MachineID(node.Spec.ProviderID), Kind: engine.NoticeSpotInterruption})
	}
	return m, objects
}

func closed(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
}

// All of five hundred nodes are closed and what runs on them is asked for anew before the first claim is deleted.
func TestFiveHundredNoticesAreActedOnInOnePass(t *testing.T) {
	t.Parallel()
	m, objects := spot(500)
	taints, hurried := 0, 0
	var first sync.Once
	w := clustertest.New(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			first.Do(func() {
				var nodes corev1.NodeList
				_ = c.List(ctx, &nodes)
				for i := range nodes.Items {
					if closed(&nodes.Items[i]) {
						taints++
					}
				}
			})
			return c.Delete(ctx, o, opts...)
		},
	}, objects...)
	planned := 0
	r := newReconciler(w, m, func() {
		hurried++
		snap, err := w.Cluster.Snapshot(w)
		w.Must(err)
		for _, l := range provisioning.Plan(snap, engine.Options{Effort: -1}, nil).Launches {
			planned += len(l.Pods)
		}
	})
	w.Must(r.Reconcile(w))
	if planned != 500 || taints != 0 {
		t.Errorf("machines are planned for %d of 500 pods while %d nodes are closed and their claims remain", planned, taints)
	}
	w.Must(r.Leave(w))
	if taints != 500 {
		t.Errorf("%d nodes were closed when the first claim was deleted", taints)
	}
	for _, c := range w.Claims() {
		node := &corev1.Node{}
		w.Must(w.Client.Get(w, client.ObjectKey{Name: c.Status.NodeName}, node))
		if c.DeletionTimestamp == nil || node.Annotations[v1.NoticeAnnotationKey] != "SpotInterruption" {
			t.Fatalf("claim %s was told to go at %v, its node's annotations are %v", c.Name, c.DeletionTimestamp, node.Annotations)
		}
	}
	if hurried != 1 || len(m.notices) != 0 {
		t.Errorf("hurried %d times, %d notices left", hurried, len(m.notices))
	}
}

// Drains would keep the API server from what else there is to do.
func TestMachinesAreLeftOnceOthersAreAskedForOrSoonAnyway(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"once others are asked for": true, "soon anyway": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, objects := spot(1)
			w := clustertest.New(t, interceptor.Funcs{}, objects...)
			var then func()
			ready := 0
			r := interruption.New(interruption.Config{
				Cluster: w.Cluster, Notifier: m, Recorder: w.Recorder, Metrics: w.Metrics,
				Hurry: func(f func()) { then = f }, Ready: func() { ready++ },
			})
			w.Must(act(w, r))
			if w.Claims()[0].DeletionTimestamp != nil || ready != 0 {
				t.Error("the machine is left before another is asked for")
			}
			if asked {
				then()
			} else {
				w.Clock.Step(interruption.HeadStart)
			}
			w.Must(r.Leave(w))
			if w.Claims()[0].DeletionTimestamp == nil || len(m.notices) > 0 || asked != (ready == 1) {
				t.Errorf("deleted at %v, %d notices left, said %d times to be ready", w.Claims()[0].DeletionTimestamp, len(m.notices), ready)
			}
		})
	}
}

// What a drain would change about the node is changed when it is closed: it need not be written to again.
func TestADrainHasNothingToAddToAClosedNode(t *testing.T) {
	t.Parallel()
	m, objects := spot(1)
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	w.Must(act(w, newReconciler(w, m, nil)))
	node := &corev1.Node{}
	w.Must(w.Client.Get(w, client.ObjectKey{Name: "general-0"}, node))
	node.Finalizers = []string{v1.TerminationFinalizer} // as every registered node has it
	step := lifecycle.Next(lifecycle.Life{Now: w.Clock.Now(), Claim: &w.Claims()[0], Nodes: []*corev1.Node{node}})
	if len(step.Nodes) != 0 || !slices.Equal(step.DeleteNodes, []string{"general-0"}) {
		t.Errorf("the node is to be written as %+v, and %v to be deleted", step.Nodes, step.DeleteNodes)
	}
}

// A node that a notice is about is closed although the claim of an earlier one is still being deleted; that one is not closed or
// left twice.
func TestNoticesAreHeardWhileMachinesAreBeingLeft(t *testing.T) {
	t.Parallel()
	m, objects := spot(2)
	second := m.notices[1]
	m.notices = m.notices[:1]
	var r *interruption.Reconciler
	deletions := map[string]int{}
	w := clustertest.New(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if deletions[o.GetName()]++; o.GetName() == "general-0" {
				m.notices = append(m.notices, second)
				if err := r.Reconcile(ctx); err != nil {
					return err
				}
				node := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKey{Name: "general-1"}, node); err != nil || !closed(node) {
					t.Errorf("the second node takes pods (%v)", err)
				}
			}
			return c.Delete(ctx, o, opts...)
		},
	}, objects...)
	r = newReconciler(w, m, nil)
	w.Must(act(w, r))
	w.Must(act(w, r))
	if deletions["general-0"] != 1 || deletions["general-1"] != 1 || len(m.notices) != 0 {
		t.Errorf("deletions %v, %d notices left", deletions, len(m.notices))
	}
}

// Where the cloud takes one machine away it takes others: it is asked again at once, not when it is time for that.
func TestNoticesThatComeWhileNodesAreClosedAreActedOnInTheSamePass(t *testing.T) {
	t.Parallel()
	m, objects := spot(3)
	late := m.notices[1:]
	m.notices = m.notices[:1]
	w := clustertest.New(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok && len(late) > 0 {
				m.mu.Lock()
				m.notices, late = append(m.notices, late[0]), late[1:]
				m.mu.Unlock()
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}, objects...)
	w.Must(newReconciler(w, m, nil).Reconcile(w))
	var nodes corev1.NodeList
	w.Must(w.Client.List(w, &nodes))
	for i := range nodes.Items {
		if !closed(&nodes.Items[i]) {
			t.Errorf("node %s takes pods", nodes.Items[i].Name)
		}
	}
}

func TestSpotNoticesMarkWhatIsSoldOut(t *testing.T) {
	t.Parallel()
	m, objects := spot(1)
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	_, err := w.Cluster.Snapshot(w) // reads the catalog
	w.Must(err)
	w.Must(act(w, newReconciler(w, m, nil)))
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	for _, x := range snap.Classes[0].InstanceTypes {
		for _, o := range x.Offerings {
			is := x.Name == "c-4x-amd64-linux" && o.Zone == "test-zone-a" && o.CapacityType == v1.CapacityTypeSpot
			if o.SoldOut != is {
				t.Errorf("%s %s %s sold out: %v", x.Name, o.Zone, o.CapacityType, o.SoldOut)
			}
		}
	}
}

func TestWhatANoticeMeans(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		leaves, atOnce bool
		event          string
	}{
		engine.NoticeSpotInterruption:        {true, false, "SpotInterrupted"},
		engine.NoticeReservationInterruption: {true, false, "CapacityReservationInstanceInterrupted"},
		engine.NoticeRebalance:               {false, false, "SpotRebalanceRecommendation"},
		engine.NoticeScheduledChange:         {true, false, "InstanceUnhealthy"},
		engine.NoticeStopping:                {true, false, "InstanceStopping"},
		engine.NoticeTerminating:             {true, false, "InstanceTerminating"},
		engine.NoticeStatusCheck:             {true, true, "InstanceUnhealthy"},
		"SomethingNew":                       {true, false, "InstanceTerminating"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m, objects := spot(1)
			m.notices[0].Kind = kind
			w := clustertest.New(t, interceptor.Funcs{}, objects...)
			w.Must(act(w, newReconciler(w, m, nil)))
			claim := w.Claims()[0]
			if got := claim.DeletionTimestamp != nil; got != want.leaves {
				t.Errorf("leaves: %v", got)
			}
			if got := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey] != ""; got != want.atOnce {
				t.Errorf("at once: %v", got)
			}
			events := w.Events()
			if events["Node "+want.event] != 1 || events["NodeClaim "+want.event] != 1 || (events["Node TerminatingOnInterruption"] == 1) != want.leaves {
				t.Errorf("events %v", events)
			}
			if len(m.notices) > 0 {
				t.Error("the notice was not acknowledged")
			}
		})
	}
}

func TestNoticesAboutOthersMachinesAreAcknowledged(t *testing.T) {
	t.Parallel()
	m := &mailbox{notices: []provider.Notice{{ID: "1", Machine: "somebody-elses", Kind: engine.NoticeSpotInterruption}}}
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"))
	w.Must(act(w, newReconciler(w, m, func() { t.Error("nothing needs another machine") })))
	if len(m.notices) > 0 {
		t.Error("the notice comes again for ever")
	}
}

func TestANoticeThatCouldNotBeActedOnIsTriedAgain(t *testing.T) {
	t.Parallel()
	m, objects := spot(2)
	broken, failing := errors.New("no"), true
	w := clustertest.New(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if failing && o.GetName() == "general-0" {
				return broken
			}
			return c.Delete(ctx, o, opts...)
		},
	}, objects...)
	r := newReconciler(w, m, nil)
	if err := act(w, r); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if len(m.notices) != 1 {
		t.Fatalf("%d notices left, want that of the claim that is still there", len(m.notices))
	}
	failing = false
	w.Must(r.Leave(w)) // at its own pace: it is not heard again for that
	if len(m.notices) != 0 {
		t.Error("the notice was not acted on again")
	}
}

// Its machine is on its way out by then: the notice is acknowledged when it comes again, and nothing is done twice.
func TestANoticeThatCouldNotBeAcknowledgedIsWhenItComesAgain(t *testing.T) {
	t.Parallel()
	m, objects := spot(1)
	deletions := 0
	w := clustertest.New(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			deletions++
			return c.Delete(ctx, o, opts...)
		},
	}, objects...)
	broken := errors.New("no")
	m.refuses = broken
	r := newReconciler(w, m, nil)
	if err := act(w, r); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	m.refuses = nil
	w.Must(r.Leave(w))
	if len(m.notices) != 1 {
		t.Fatalf("%d notices left before it came again", len(m.notices))
	}
	w.Must(act(w, r))
	if len(m.notices) != 0 || deletions != 1 {
		t.Errorf("%d notices left, %d deletions", len(m.notices), deletions)
	}
}

// Somebody else writes to the node between the read and the write.
func TestANodeThatOthersWriteIsClosedAllTheSame(t *testing.T) {
	t.Parallel()
	m, objects := spot(1)
	conflicts := 2
	w := clustertest.New(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(corev1.Resource("nodes"), o.GetName(), errors.New("changed"))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}, objects...)
	w.Must(act(w, newReconciler(w, m, nil)))
	node := &corev1.Node{}
	w.Must(w.Client.Get(w, client.ObjectKey{Name: "general-0"}, node))
	if !closed(node) {
		t.Error("the node takes pods")
	}
}

// A machine at its pool's limit can be replaced only once its claim is being deleted.
func TestWhereALimitIsReachedOthersAreAskedForOnceMachinesAreLeft(t *testing.T) {
	t.Parallel()
	m, objects := spot(1)
	objects[0].(*v1.NodePool).Spec.Limits = v1.Limits{v1.ResourceNodes: resource.MustParse("1")}
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	launches := 0
	w.Must(act(w, newReconciler(w, m, func() {
		snap, err := w.Cluster.Snapshot(w)
		w.Must(err)
		launches += len(provisioning.Plan(snap, engine.Options{}, nil).Launches)
	})))
	if launches != 1 {
		t.Errorf("%d machines were planned, want one", launches)
	}
}

// What is only told of is acknowledged at once: others must not wait for it to be heard.
func TestNoticesThatAskForNothingWaitForNothing(t *testing.T) {
	t.Parallel()
	m, objects := spot(2)
	m.notices[0].Kind = engine.NoticeRebalance
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	r := interruption.New(interruption.Config{Cluster: w.Cluster, Notifier: m, Recorder: w.Recorder, Metrics: w.Metrics, Hurry: func(func()) {}})
	w.Must(act(w, r))
	if len(m.notices) != 1 || m.notices[0].Kind == engine.NoticeRebalance {
		t.Errorf("these are left: %+v", m.notices)
	}
}

// Somebody else, node repair for one, may delete the claim of a broken machine first.
func TestABrokenMachineWhoseClaimSomebodyDeletesGivesItsPodsNoMoreTime(t *testing.T) {
	t.Parallel()
	for name, finalizers := range map[string][]string{"it is being deleted": {v1.TerminationFinalizer}, "it is gone": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, objects := spot(1)
			m.notices[0].Kind = engine.NoticeStatusCheck
			for _, o := range objects {
				if claim, ok := o.(*v1.NodeClaim); ok {
					claim.Finalizers = finalizers
				}
			}
			w := clustertest.New(t, interceptor.Funcs{}, objects...)
			r := newReconciler(w, m, func() {})
			w.Must(r.Reconcile(w))
			w.Must(w.Client.Delete(w, &w.Claims()[0]))
			w.Must(r.Leave(w))
			for _, c := range w.Claims() {
				if c.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey] == "" {
					t.Error("its pods have all their time")
				}
			}
			if len(m.notices) != 0 {
				t.Errorf("the notice is left: %+v", m.notices)
			}
		})
	}
}

// endless has another notice whenever it is asked, and being asked takes time.
type endless struct {
	mailbox
	w     *clustertest.World
	asked int
}

func (e *endless) Notices(context.Context) ([]provider.Notice, error) {
	e.w.Clock.Step(3 * time.Second)
	e.asked++
	return e.notices[e.asked-1 : e.asked], nil
}

// A pass that does not end looks as if it were stuck.
func TestAPassEndsThoughNoticesDoNot(t *testing.T) {
	t.Parallel()
	m, objects := spot(50)
	e := &endless{w: clustertest.New(t, interceptor.Funcs{}, objects...)}
	e.notices = m.notices
	r := interruption.New(interruption.Config{Cluster: e.w.Cluster, Notifier: e, Recorder: e.w.Recorder, Metrics: e.w.Metrics})
	e.w.Must(r.Reconcile(e.w))
	if e.asked > 5 {
		t.Errorf("asked %d times in one pass", e.asked)
	}
}
