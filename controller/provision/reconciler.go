// Package provision starts machines for pods that no node can run: it asks the engine for a plan, checks each launch
// against the newest snapshot, writes it down as a NodeClaim, and tells pods and people. When a pass begins is left to
// the loop that runs it, what becomes of a claim to package nodeclaim.
package provision

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/report"
)

const (
	name         = "provisioner" // of this controller in metrics
	writeAtOnce  = 16            // claims or pods written at the same time
	poolOfObject = "NodePool "   // how a note names a pool
)

// Config is what a Reconciler is made of.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Metrics  *report.Metrics
	// Pods hears what plans say of pods; nil if nobody listens.
	Pods    *report.PodObserver
	Options engine.Options
	// NominatePods says whether pods are pointed at the existing nodes that the plan puts them on.
	NominatePods bool
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	memo engine.Memo
	// nominated holds the nodes that this process pointed pods at.
	nominated map[types.UID]string
	// seen says since when pods are nominated to nodes that take pods.
	seen     map[types.UID]sighting
	refusals *report.Refusals
	refused  uint64 // stands for the pods that the last plan refused, to log them once
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, nominated: map[types.UID]string{}, seen: map[types.UID]sighting{}, refusals: report.NewRefusals(config.Recorder)}
}

// Reconcile makes one pass: plan, launch, nominate. What failed for one launch does not stop the others; the error names
// everything that failed, and the next pass meets it again.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	began := r.Cluster.Clock.Now()
	plan := engine.Provision(snap, r.Options, &r.memo)
	r.Metrics.Planned(name, r.Cluster.Clock.Since(began), waiting(plan), len(plan.Unplaced), invalid(plan))
	view := newView(snap)
	if r.NominatePods {
		takeTurns(plan.Launches, view.pods)
	}
	r.report(ctx, view, plan)
	err = errors.Join(r.launch(ctx, view, plan), r.nominate(ctx, view, plan))
	r.price(snap, plan)
	return err
}

// foreseen bounds the clusters in which every plan's landing is replayed, as pods times nodes: some tenths of a second.
const foreseen = 2_000_000

// price records what the plan costs, once it has been carried out.
func (r *Reconciler) price(snap *engine.Snapshot, plan *engine.Plan) {
	if len(plan.Launches) == 0 {
		return
	}
	if waiting(plan)*(len(snap.Nodes)+len(plan.Launches)) <= foreseen {
		engine.Foresee(snap, r.Options, plan)
	}
	r.Metrics.Priced(plan.Cost)
}

func waiting(plan *engine.Plan) int {
	n := len(plan.Placements) + len(plan.Unplaced)
	for _, l := range plan.Launches {
		n += len(l.Pods)
	}
	return n
}

func invalid(plan *engine.Plan) int {
	n := 0
	for _, u := range plan.Unplaced {
		for _, reason := range u.Reasons {
			if reason.Code == engine.InvalidPod {
				n++
				break
			}
		}
	}
	return n
}

// launch writes the plan's launches down, several at a time.
func (r *Reconciler) launch(ctx context.Context, view *view, plan *engine.Plan) error {
	if len(plan.Launches) == 0 {
		return nil
	}
	newest, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(plan.Launches))
	var group errgroup.Group
	group.SetLimit(writeAtOnce)
	checker := engine.NewChecker(newest)
	for i, launch := range plan.Launches {
		if reason := checker.Check(launch); !reason.OK() {
			log.FromContext(ctx).Info("dropped launch, it is not right any more", "launch", launch.Name, "reason", reason.String())
			continue
		}
		if view.isEarly(launch) {
			log.FromContext(ctx).V(1).Info("put launch off, a machine for its pods has just opened", "launch", launch.Name, "pods", len(launch.Pods))
			continue
		}
		group.Go(func() error {
			errs[i] = r.create(ctx, view, launch)
			return nil
		})
	}
	_ = group.Wait() // every launch has its own error
	return errors.Join(errs...)
}

func (r *Reconciler) create(ctx context.Context, view *view, launch engine.Launch) error {
	pool := view.pools[launch.NodePool]
	if pool == nil {
		return fmt.Errorf("create NodeClaim: pool %s is not in the snapshot", launch.NodePool)
	}
	claim, err := r.Cluster.CreateClaim(ctx, pool, launch)
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("created nodeclaim", report.LaunchLine(claim, launch)...)
	r.Metrics.ClaimCreated("provisioned", claim)
	why := launch.Sentence()
	for _, id := range launch.Pods {
		if pod := view.pods[id.UID]; pod != nil {
			r.Recorder.Publish(report.PodPlanned(pod, claim.Name, why))
		}
	}
	return nil
}

// report tells people what the plan says; it changes nothing.
func (r *Reconciler) report(ctx context.Context, view *view, plan *engine.Plan) {
	if r.Pods != nil {
		r.Pods.Decided(plan)
	}
	if len(plan.Launches) > 0 {
		log.FromContext(ctx).Info("computed plan", report.PlanLine(plan)...)
	}
	r.reportRefused(ctx, plan.Unplaced)
	r.refusals.Tell(view.pods, plan.Unplaced)
	for _, note := range plan.Notes {
		pool := view.pools[strings.TrimPrefix(note.Object, poolOfObject)]
		if pool != nil && note.Reason.Code == engine.NoInstanceTypes {
			r.Recorder.Publish(report.PoolWithoutTypes(pool, note.Reason))
		}
	}
}

// reportRefused logs the pods that nothing can run, when they are others than before.
func (r *Reconciler) reportRefused(ctx context.Context, unplaced []engine.Unplaced) {
	sum := fnv.New64a()
	for _, u := range unplaced {
		sum.Write([]byte(u.Pod.UID))
		for _, reason := range u.Reasons {
			sum.Write([]byte(reason.Code))
		}
		sum.Write([]byte{0})
	}
	if sum.Sum64() == r.refused {
		return
	}
	r.refused = sum.Sum64()
	if len(unplaced) > 0 {
		log.FromContext(ctx).Info("found no machine for pods", report.UnplacedLine(unplaced)...)
	}
}

// view finds the objects of a snapshot by what a plan calls them.
type view struct {
	pods  map[types.UID]*corev1.Pod
	nodes map[string]*corev1.Node
	pools map[string]*v1.NodePool
	// stopping holds the nodes on which pods are being stopped.
	stopping map[string]bool
	// opening holds the pods whose machine is about to take them, or took others just now.
	opening map[types.UID]bool
}

// openingWhile is how long after its machine is ready a pod may still find its place, or another one that a pod with the
// same trouble left. Until then no second machine is started for it.
const openingWhile, openingLongest = 10 * time.Second, time.Minute

// isOpening reports whether pods that were planned for the claim may still be on their way to their places.
func isOpening(claim *v1.NodeClaim, now time.Time) bool {
	registered, initialized := v1.GetCondition(claim, v1.ConditionRegistered), v1.GetCondition(claim, v1.ConditionInitialized)
	switch {
	case claim.DeletionTimestamp != nil || registered == nil || registered.Status != metav1.ConditionTrue:
		return false
	case initialized == nil || initialized.Status != metav1.ConditionTrue:
		return now.Sub(registered.LastTransitionTime.Time) < openingLongest
	}
	return now.Sub(initialized.LastTransitionTime.Time) < openingWhile
}

// isEarly reports whether the launch is for nobody but pods whose machine is opening.
func (v *view) isEarly(launch engine.Launch) bool {
	for _, id := range launch.Pods {
		if !v.opening[id.UID] {
			return false
		}
	}
	return len(launch.Pods) > 0
}

func newView(s *engine.Snapshot) *view {
	v := &view{
		pods:     map[types.UID]*corev1.Pod{},
		nodes:    make(map[string]*corev1.Node, len(s.Nodes)),
		pools:    make(map[string]*v1.NodePool, len(s.NodePools)),
		stopping: map[string]bool{},
		opening:  map[types.UID]bool{},
	}
	for _, claim := range s.NodeClaims {
		if isOpening(claim, s.Now) {
			for _, uid := range engine.PlannedPods(claim) {
				v.opening[types.UID(uid)] = true
			}
		}
	}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "" {
			v.pods[pod.UID] = pod
		} else if engine.IsTerminating(pod) {
			v.stopping[pod.Spec.NodeName] = true
		}
	}
	for _, node := range s.Nodes {
		v.nodes[node.Name] = node
	}
	for _, pool := range s.NodePools {
		v.pools[pool.Name] = pool
	}
	return v
}
