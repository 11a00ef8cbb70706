// Package provision starts machines for pods that no node can run. It asks the engine for a plan, checks each launch against the newest snapshot,
// creates a NodeClaim for it, and reports to pods and people. The loop that runs it begins the passes, and package nodeclaim continues with the
// claims.
package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/lane"
	"tenon.sh/controller"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
	"tenon.sh/report"
)

const (
	name         = "provisioner" // of this controller in metrics
	writeAtOnce  = 32            // claims or pods written at the same time, by default
	poolOfObject = "NodePool "   // how a note names a pool
	podOfObject  = "Pod "        // and a pod
)

// Config is the input of New.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Metrics  *report.Metrics
	// Pods gets the plans' decisions on pods; nil if nobody observes them.
	Pods *report.PodObserver
	// Buffers gets each plan for the status of CapacityBuffers; nil if these have no effect.
	Buffers interface {
		Write(context.Context, *engine.Snapshot, *engine.Plan) error
	}
	// Requests gets each plan for the status of ProvisioningRequests.
	Requests interface {
		Write(context.Context, *engine.Snapshot, *engine.Plan) error
	}
	// Options determine, among others, whether pods are nominated to the existing nodes on which the plan places them.
	Options engine.Options
	// Begun, unless nil, gets after each pass the names of the claims of the plan's launches, "" for launches without a claim.
	Begun func(s *engine.Snapshot, plan *engine.Plan, claims []string)
	// AtOnce is how many claims or pods are written at the same time; 0 means writeAtOnce.
	AtOnce int
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	cache    inventory.Cache
	advisor  nomination.Advisor
	refusals *report.Refusals
	refused  uint64 // a hash of the pods that the last plan refused, to log them once
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, refusals: report.NewRefusals(config.Recorder)}
}

// Reconcile makes one pass: plan, launch, nominate. A failure of one launch does not stop the others. The error contains all failures,
// and the next pass tries them again.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	began := r.Cluster.Clock.Now()
	plan, err := controller.Compute(ctx, func() *engine.Plan { return provisioning.Plan(snap, r.Options, &r.cache) })
	if err != nil {
		return err
	}
	r.Cluster.KeepExpected(plan.ExpectedPods)
	r.Metrics.Planned(name, r.Cluster.Clock.Since(began), waiting(plan), len(plan.Unplaced), invalid(plan))
	r.Metrics.Together(plan)
	view := newView(snap)
	r.report(ctx, view, plan)
	r.tellGangs(snap, plan)
	claims := make([]string, len(plan.Launches))
	err = errors.Join(r.backOff(ctx, view, plan), r.learn(ctx, view, plan), r.launch(ctx, view, plan, claims), r.nominate(ctx, snap, view, plan))
	if r.Begun != nil {
		r.Begun(snap, plan, claims)
	}
	if r.Buffers != nil && len(snap.CapacityBuffers) > 0 {
		err = errors.Join(err, r.Buffers.Write(ctx, snap, plan))
	}
	if r.Requests != nil && len(snap.ProvisioningRequests) > 0 {
		err = errors.Join(err, r.Requests.Write(ctx, snap, plan))
	}
	return errors.Join(err, r.price(ctx, snap, plan))
}

// foreseen is the largest product of pods and nodes for which every plan's landing is replayed: a replay then takes some tenths of a second.
const foreseen = 2_000_000

// price records what the plan costs, once it has been carried out.
func (r *Reconciler) price(ctx context.Context, snap *engine.Snapshot, plan *engine.Plan) error {
	if len(plan.Launches) == 0 {
		return nil
	}
	cost, err := controller.Compute(ctx, func() engine.Cost {
		foreseeing := *plan
		if waiting(plan)*(len(snap.Nodes)+len(plan.Launches)) <= foreseen {
			nomination.Foresee(snap, r.Options, &foreseeing)
		}
		return foreseeing.Cost
	})
	if err != nil {
		return err
	}
	r.Metrics.Priced(cost)
	return nil
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

// backOff records the machines that did not take the pods that they were started for, and tells people.
func (r *Reconciler) backOff(ctx context.Context, view *view, plan *engine.Plan) error {
	var errs []error
	for _, change := range plan.Backoffs {
		if _, err := r.Cluster.AnnotatePool(ctx, view.pools[change.NodePool], v1.LaunchBackoffAnnotationKey, change.Text); err != nil {
			if !cluster.Expected(err) {
				errs = append(errs, fmt.Errorf("NodePool %s: write down that machines did not take their pods: %w", change.NodePool, err))
			}
			continue // told once it is written
		}
		for _, found := range change.Found {
			log.FromContext(ctx).Info("machine did not take its pods", "NodePool", change.NodePool, "NodeClaim", found.Claim.Name,
				"pods", len(found.Pods), "why", found.Why)
			r.Recorder.Publish(report.PodsNotTaken(found))
		}
	}
	return errors.Join(errs...)
}

// learn records which devices the machines of pools have.
func (r *Reconciler) learn(ctx context.Context, view *view, plan *engine.Plan) error {
	var errs []error
	for _, change := range plan.LearnedDevices {
		if _, err := r.Cluster.AnnotatePool(ctx, view.pools[change.NodePool], v1.LearnedDevicesAnnotationKey, change.Text); err != nil && !cluster.Expected(err) {
			errs = append(errs, fmt.Errorf("NodePool %s: write down which devices its machines have: %w", change.NodePool, err))
		}
	}
	return errors.Join(errs...)
}

// launch creates the claims of the plan's launches, several at a time, and fills in their names.
func (r *Reconciler) launch(ctx context.Context, view *view, plan *engine.Plan, claims []string) error {
	if len(plan.Launches) == 0 {
		return nil
	}
	return r.Cluster.Launching(ctx, func() error { return r.launchAll(ctx, view, plan, claims) })
}

func (r *Reconciler) launchAll(ctx context.Context, view *view, plan *engine.Plan, claims []string) error {
	newest, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(plan.Launches))
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.AtOnce, writeAtOnce))
	reasons := disruption.NewChecker(newest).CheckLaunches(plan.Launches)
	for i, launch := range plan.Launches {
		if reason := reasons[i]; !reason.OK() {
			log.FromContext(ctx).Info("dropped launch, it is not right now", "launch", launch.Name, "reason", reason.String())
			continue
		}
		group.Go(func() error {
			claims[i], errs[i] = r.create(ctx, view, launch)
			return nil
		})
	}
	_ = group.Wait() // every launch has its own error
	return errors.Join(errs...)
}

func (r *Reconciler) create(ctx context.Context, view *view, launch engine.Launch) (name string, err error) {
	pool := view.pools[launch.NodePool]
	if pool == nil {
		return "", fmt.Errorf("create NodeClaim: pool %s is not in the snapshot", launch.NodePool)
	}
	claim, err := r.Cluster.CreateClaim(lane.In(ctx, lane.Urgent), pool, launch)
	if err != nil {
		return "", err
	}
	log.FromContext(ctx).Info("created nodeclaim", report.LaunchLine(claim, launch)...)
	r.Metrics.ClaimCreated("provisioned", claim)
	why := launch.Sentence()
	for _, id := range launch.Pods {
		if pod := view.pods[id.UID]; pod != nil {
			r.Recorder.Publish(report.PodPlanned(pod, claim.Name, why))
		}
	}
	return claim.Name, nil
}

// report tells people about the plan; it changes nothing.
func (r *Reconciler) report(ctx context.Context, view *view, plan *engine.Plan) {
	if r.Pods != nil {
		r.Pods.Decided(plan)
	}
	if len(plan.Launches) > 0 {
		log.FromContext(ctx).Info("computed plan", report.PlanLine(plan)...)
	}
	r.reportRefused(ctx, plan.Unplaced)
	r.refusals.Tell(view.pods, plan.Unplaced)
	notBound := map[string]engine.Reason{}
	for _, note := range plan.Notes {
		if note.Reason.Code == engine.NotBound {
			notBound[note.Object] = note.Reason
			continue
		}
		pool := view.pools[strings.TrimPrefix(note.Object, poolOfObject)]
		switch {
		case pool == nil:
		case note.Reason.Code == engine.NoInstanceTypes:
			r.Recorder.Publish(report.PoolWithoutTypes(pool, note.Reason))
		case note.Reason.Code == engine.DevicesForgotten:
			r.Recorder.Publish(report.DevicesForgotten(pool, note.Reason))
		case note.Reason.Code == engine.UnknownLimit:
			r.Recorder.Publish(report.UnknownLimit(pool, note.Reason))
		case note.Reason.Code == engine.LittleMemory:
			r.Recorder.Publish(report.LittleMemory(pool, note.Reason))
		}
	}
	if len(notBound) == 0 {
		return
	}
	for _, pod := range view.pods {
		if reason := notBound[podOfObject+kube.PodID(pod).String()]; !reason.OK() {
			r.Recorder.Publish(report.NotBound(pod, reason))
		}
	}
}

// tellGangs tells the owners of PodGroups the result of the plan.
func (r *Reconciler) tellGangs(s *engine.Snapshot, plan *engine.Plan) {
	groups := make(map[types.UID]*schedulingv1alpha3.PodGroup, len(s.PodGroups))
	for _, o := range s.PodGroups {
		groups[o.UID] = o
	}
	for i := range plan.Gangs {
		if e, ok := report.GangDecided(groups[plan.Gangs[i].UID], &plan.Gangs[i]); ok {
			r.Recorder.Publish(e)
		}
	}
}

// reportRefused logs the pods that nothing can run, if they have changed.
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

// view finds the objects of a snapshot by the identifiers in a plan.
type view struct {
	pods  map[types.UID]*corev1.Pod // pods without a node
	nodes map[string]bool
	pools map[string]*v1.NodePool
}

func newView(s *engine.Snapshot) *view {
	v := &view{map[types.UID]*corev1.Pod{}, make(map[string]bool, len(s.Nodes)), make(map[string]*v1.NodePool, len(s.NodePools))}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "" {
			v.pods[pod.UID] = pod
		}
	}
	for _, node := range s.Nodes {
		v.nodes[node.Name] = true
	}
	for _, pool := range s.NodePools {
		v.pools[pool.Name] = pool
	}
	return v
}
