// Package disrupt removes and replaces nodes as the engine decides. Each step is written on the objects: marks on the claims, taints on the nodes, the
// replacements' claims, then deletions. The first pass after a restart reads these, and continues each disruption or takes it back. Package nodeclaim
// drains nodes and stops machines.
package disrupt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/replacement"
	"tenon.sh/report"
)

const (
	atOnce = 16                     // objects written at the same time, by default
	fresh  = 300 * time.Millisecond // how old a plan may be to need no check
)

// Config is the input of New.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Metrics  *report.Metrics
	Options  engine.Options
	// Record, unless nil, gets each pass that disrupts nodes, before the disruptions begin.
	Record func(context.Context, *engine.Snapshot, *engine.Plan)
	// Begun, unless nil, gets after each pass the disruptions of the plan that have begun.
	Begun func(*engine.Snapshot, *engine.Plan, []engine.Disruption)
	// AtOnce is how many disruptions are carried out at the same time; 0 means atOnce.
	AtOnce int
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	cache inventory.Cache
	// progress is the memory of replacement.Progress.
	progress inventory.Cache
	// bare holds, by UID, the nodes that the last pass found closed without a reason on their claims, with the time of the first of these passes.
	bare   map[types.UID]time.Time
	checks checks
	faults reportedFaults
	// began is the time of this process's first pass; seen holds the disruptions in progress of which this process has seen a
	// replacement.
	began time.Time
	seen  map[string]bool

	begunMu sync.Mutex
	begun   []engine.Disruption // in this pass, for Begun
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, faults: reportedFaults{clock: config.Cluster.Clock}}
}

// Reconcile makes one pass: it continues the disruptions in progress, takes back the ones that are no longer wanted, and then begins
// the disruptions of the plan. A failure for one node does not stop the others.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	began := r.Cluster.Clock.Now()
	plan, err := controller.Compute(ctx, func() *engine.Plan { return disruption.Plan(snap, r.Options, &r.cache) })
	if err != nil {
		return err
	}
	took := r.Cluster.Clock.Since(began)
	r.Cluster.KeepPasses(plan.Passes)
	if r.Record != nil && len(plan.Disruptions) > 0 {
		r.Record(ctx, snap, plan)
	}
	eligible := map[v1.DisruptionReason]int{}
	for _, d := range plan.Disruptions {
		eligible[d.Reason] += len(d.Nodes)
	}
	for _, reason := range []v1.DisruptionReason{v1.Empty, v1.Underutilized, v1.Drifted, v1.Unhealthy, v1.Expired} {
		r.Metrics.Evaluated(reason, took, eligible[reason])
	}
	return r.CarryOut(ctx, snap, plan)
}

// CarryOut carries out the plan in the cluster of the snapshot, and continues the disruptions in progress.
func (r *Reconciler) CarryOut(ctx context.Context, snap *engine.Snapshot, plan *engine.Plan) error {
	if r.began.IsZero() {
		r.began = snap.Now
	}
	view := newView(snap)
	r.Metrics.Kept(plan.Kept)
	r.reportKept(view, plan.Kept)
	disruptions := r.patient(view, plan.Disruptions)
	r.reportMoves(view, plan.Judgements, disruptions)
	orders := replacement.Progress(snap, r.Options, &r.progress)
	disruptions = replacement.Beside(snap, orders, disruptions)
	inProgress := r.goOn(ctx, view, orders)
	r.begun = nil
	err := errors.Join(
		inProgress, r.takeBack(ctx, view, plan), r.begin(ctx, view, disruptions), r.avoid(ctx, view, plan.Next),
	)
	if r.Begun != nil {
		r.Begun(snap, plan, r.begun)
	}
	return err
}

func (r *Reconciler) hasBegun(d engine.Disruption) {
	r.begunMu.Lock()
	defer r.begunMu.Unlock()
	r.begun = append(r.begun, d)
}

// recordMoves records how many pods of each owner consolidation moves, because nothing shows it afterwards.
func (r *Reconciler) recordMoves(ctx context.Context, view *view, d engine.Disruption) error {
	if len(d.OwnersMoved) == 0 {
		return nil
	}
	view.recording.Lock() // several disruptions may be in one pool
	defer view.recording.Unlock()
	name := view.claims[d.Claims[0]].Labels[v1.NodePoolLabelKey]
	pool := cmp.Or(view.recorded[name], view.pools[name])
	written, err := r.Cluster.AnnotatePool(ctx, pool, v1.MovedPodsAnnotationKey, budget.RecordMoves(pool, d, r.Cluster.Clock.Now()))
	if err != nil {
		return fmt.Errorf("NodePool %s: write down which pods move: %w", name, err)
	}
	view.recorded[name] = written
	return nil
}

// patient leaves out replacements in pools whose replacements failed a moment ago, and tells the pools' owners.
func (r *Reconciler) patient(view *view, disruptions []engine.Disruption) []engine.Disruption {
	backoffs := replacement.Backoffs(view.snapshot)
	if len(backoffs) == 0 {
		return disruptions
	}
	off := map[string]bool{}
	for _, b := range backoffs {
		off[b.NodePool] = true
		if pool := view.pools[b.NodePool]; pool != nil {
			r.Recorder.Publish(report.BackedOff(pool, b))
		}
	}
	var out []engine.Disruption
	for _, d := range disruptions {
		held := len(d.Replacements) > 0 && slices.ContainsFunc(d.Claims, func(name string) bool {
			claim := view.claims[name]
			return claim != nil && off[claim.Labels[v1.NodePoolLabelKey]]
		})
		if !held {
			out = append(out, d)
		}
	}
	return out
}

// begin carries disruptions out, several at a time.
func (r *Reconciler) begin(ctx context.Context, view *view, disruptions []engine.Disruption) error {
	errs := make([]error, len(disruptions))
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.AtOnce, atOnce))
	for i, d := range disruptions {
		group.Go(func() error {
			if err := r.disrupt(ctx, view, d); err != nil {
				errs[i] = fmt.Errorf("disrupt %v: %w", d.Nodes, err)
			}
			return nil
		})
	}
	_ = group.Wait() // every disruption has its own error
	return errors.Join(errs...)
}

func (r *Reconciler) reportKept(view *view, kept []engine.Kept) {
	for _, k := range kept {
		if k.Reason.Code == engine.BudgetExhausted {
			if pool := view.pools[k.Reason.NodePool]; pool != nil {
				r.Recorder.Publish(report.BudgetExhausted(pool, k.Reason))
			}
			continue
		}
		r.Recorder.Publish(report.Blocked(view.node(k.Node), view.claims[k.Claim], k.Reason)...)
		if pool := view.pools[k.Reason.NodePool]; pool != nil && k.Reason.Code == engine.TooManyUnhealthy {
			r.Recorder.Publish(report.RepairBlocked(pool, k.Reason))
		}
		if pod := k.Protector; pod != nil {
			r.Recorder.Publish(report.Engine(engine.ProtectedUntil(pod, kube.ProtectionOf(pod, view.snapshot.Now).Until)))
		}
	}
}

// reportMoves reports which moves consolidation has judged, and which nodes it is about to replace.
func (r *Reconciler) reportMoves(view *view, judgements []engine.Judgement, disruptions []engine.Disruption) {
	r.Metrics.Judged(judgements)
	for _, j := range judgements {
		nodes, claims := view.objects(j.Nodes, j.Claims)
		r.Recorder.Publish(report.Approved(nodes, claims, view.pools[j.NodePool], j)...)
	}
	for _, d := range disruptions {
		nodes, claims := view.objects(d.Nodes, d.Claims)
		r.Recorder.Publish(report.Candidates(nodes, claims, d)...)
	}
}

// overtaken reports that a disruption was no longer right when it was to begin.
func (r *Reconciler) overtaken(view *view, d engine.Disruption, why engine.Reason) {
	r.Metrics.Overtaken(d.Reason)
	nodes, claims := view.objects(d.Nodes, d.Claims)
	r.Recorder.Publish(report.Rejected(nodes, claims, d.Reason, why)...)
}

// disrupt carries out one disruption. With replacements it only begins here. Without, each node takes these steps: mark the claim,
// close the node to new pods, read its pods from the API server, and only then delete the claim.
func (r *Reconciler) disrupt(ctx context.Context, view *view, d engine.Disruption) error {
	if reason, err := r.check(ctx, view, d); err != nil || !reason.OK() {
		return err
	}
	if err := r.recordMoves(ctx, view, d); err != nil {
		return unexpected([]error{err})
	}
	if len(d.Replacements) > 0 {
		return r.order(ctx, view, d)
	}
	var errs []error
	taken := d
	taken.Nodes, taken.Claims = nil, nil
	pools := map[string]bool{}
	for i, name := range d.Nodes {
		node, claim := view.node(name), view.claims[d.Claims[i]]
		if node == nil || claim == nil {
			errs = append(errs, fmt.Errorf("node %s or its claim is not in the snapshot", name))
			continue
		}
		gone, err := r.remove(ctx, view, node, claim, d)
		if err != nil && !cluster.Expected(err) {
			errs = append(errs, err)
		}
		if gone {
			taken.Nodes, taken.Claims = append(taken.Nodes, node.Name), append(taken.Claims, claim.Name)
			pools[claim.Labels[v1.NodePoolLabelKey]] = true
		}
	}
	if len(pools) > 0 {
		r.hasBegun(taken)
		line := report.DisruptionLine(taken)
		if kept := len(d.Nodes) - len(taken.Nodes); kept > 0 {
			line = append(line, "kept", kept)
		}
		log.FromContext(ctx).Info("disrupting node(s)", line...)
		if d.TerminateFirst != "" {
			r.Metrics.TerminatesFirst(d, sorted(pools))
		} else {
			r.Metrics.Decided("delete", d.Reason, sorted(pools))
		}
	}
	return errors.Join(errs...)
}

// checks keeps the newest checker for disruptions that begin at about the same time, because a check makes a new plan.
type checks struct {
	mu      sync.Mutex
	at      time.Time
	took    time.Duration
	checker *disruption.Checker
}

// planShare is the least time for which a checker is used, as a multiple of the time of a check, because a new checker needs a new snapshot.
const planShare = 4

// check returns the reason if a disruption is not valid any more. It checks nothing if the plan is newer than `fresh`.
func (r *Reconciler) check(ctx context.Context, view *view, d engine.Disruption) (engine.Reason, error) {
	if r.Cluster.Clock.Since(view.snapshot.Now) < fresh {
		return engine.Reason{}, nil
	}
	r.checks.mu.Lock()
	defer r.checks.mu.Unlock()
	if r.checks.checker == nil || r.Cluster.Clock.Since(r.checks.at) >= max(fresh, planShare*r.checks.took) {
		newest, err := r.Snapshot(ctx)
		if err != nil {
			return engine.Reason{}, err
		}
		r.checks.at, r.checks.checker = newest.Now, disruption.NewCheckerWith(newest, r.Options)
	}
	began := r.Cluster.Clock.Now()
	reason := r.checks.checker.Check(d)
	r.checks.took = max(r.checks.took/2, r.Cluster.Clock.Since(began))
	if !reason.OK() {
		r.overtaken(view, d, reason)
		log.FromContext(ctx).V(1).Info("dropped disruption, it is not right any more", "nodes", d.Nodes, "reason", reason.String())
	}
	return reason, nil
}

// remove deletes a node's claim, unless a pod that would have to move runs on the node. It reports whether it did.
func (r *Reconciler) remove(ctx context.Context, view *view, node *corev1.Node, claim *v1.NodeClaim, d engine.Disruption) (bool, error) {
	claim, node, err := r.mark(ctx, claim, node, d)
	if err != nil {
		return false, err
	}
	pods, err := r.Cluster.PodsOn(ctx, node.Name)
	if err != nil {
		return false, err
	}
	if pod := arrived(pods, d); pod != nil {
		why := engine.Reason{Code: engine.NotEmpty, Have: "pod " + pod.Namespace + "/" + pod.Name + ", which has just come,"}
		r.overtaken(view, engine.Disruption{Reason: d.Reason, Nodes: []string{node.Name}, Claims: []string{claim.Name}}, why)
		log.FromContext(ctx).Info("kept node, a pod came to run on it", "Node", node.Name, "Pod", pod.Namespace+"/"+pod.Name)
		_, err := r.unmark(ctx, claim, node)
		return false, err
	}
	if claim, err = r.limitDrain(ctx, claim, d.DrainWithin); err != nil {
		return false, err
	}
	if err := r.Cluster.DeleteClaim(ctx, claim); err != nil {
		return false, err
	}
	r.tellDeleted(ctx, view, node, claim, d.Reason, d.DrainWithin, pods)
	return true, nil
}

// limitDrain writes the drain deadline on a claim that is about to be deleted.
func (r *Reconciler) limitDrain(ctx context.Context, claim *v1.NodeClaim, within *time.Duration) (*v1.NodeClaim, error) {
	text, sooner := lifecycle.DrainDeadline(claim, within, r.Cluster.Clock.Now())
	if !sooner {
		return claim, nil
	}
	return r.Cluster.ChangeClaim(ctx, claim, func(c *v1.NodeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, text)
	})
}

// tellDeleted tells people that a claim was deleted, which pods have to move, and why.
func (r *Reconciler) tellDeleted(ctx context.Context, view *view, node *corev1.Node, claim *v1.NodeClaim, reason v1.DisruptionReason, within *time.Duration, pods []*corev1.Pod) {
	moving := 0
	for _, p := range pods {
		if kube.IsReschedulable(p) {
			moving++
		}
	}
	name := ""
	if node != nil {
		name = node.Name
	}
	log.FromContext(ctx).Info("deleted nodeclaim", "NodeClaim", claim.Name, "Node", name, "reason", reason, "pods", moving)
	r.Recorder.Publish(report.Terminating(node, claim, reason)...)
	r.Metrics.ClaimDisrupted(string(reason), claim, view.policy(claim, reason), moving)
	if reason == v1.Unhealthy && node != nil {
		r.Metrics.UnhealthyDisrupted(disruption.BrokenBy(view.snapshot, node, claim), claim, within)
	}
}

// arrived returns a pod that would have to move, and that the decision does not contain. For broken machines it returns nil.
func arrived(pods []*corev1.Pod, d engine.Disruption) *corev1.Pod {
	if d.Reason == v1.Unhealthy {
		return nil
	}
	known := map[string]bool{}
	for _, id := range slices.Concat(d.Pods, d.Held) {
		known[string(id.UID)] = true
	}
	for _, pod := range pods {
		if kube.IsReschedulable(pod) && !known[string(pod.UID)] {
			return pod
		}
	}
	return nil
}
