package report

import (
	"cmp"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Metrics counts the actions of the controllers. The metrics have the names and labels that the dashboards of Karpenter's users know.
// Metrics that follow from the state of the cluster are in StateCollector.
type Metrics struct {
	claimsCreated, claimsTerminated, claimsDisrupted, podsDisrupted *prometheus.CounterVec
	claimTermination, machineTermination                            *prometheus.HistogramVec
	nodesCreated, nodesTerminated, nodesDrained                     *prometheus.CounterVec
	nodeTermination                                                 *prometheus.SummaryVec
	nodeLifetime                                                    *prometheus.HistogramVec
	evictions, podsDrained                                          *prometheus.CounterVec
	scheduling                                                      *prometheus.HistogramVec
	slowPasses                                                      *prometheus.CounterVec
	unschedulable, queueDepth, planCost                             *prometheus.GaugeVec
	bufferCost                                                      *prometheus.GaugeVec
	ignored                                                         prometheus.Gauge
	decisions, decisionsByPool, terminateFirst                      *prometheus.CounterVec
	deletionCosts                                                   *prometheus.CounterVec
	deletionCostsWait                                               *prometheus.GaugeVec
	evaluation                                                      *prometheus.HistogramVec
	eligible                                                        *prometheus.GaugeVec
	kept                                                            *prometheus.GaugeVec
	requests, gangs                                                 *prometheus.GaugeVec
	// The last counts, by their two labels.
	keptFor, requestsBy, gangsBy                 map[[2]string]int
	failedValidations, queueFailures, judgements *prometheus.CounterVec
	unhealthyDisrupted                           *prometheus.CounterVec
	balance                                      *prometheus.HistogramVec
	cloudDuration                                *prometheus.HistogramVec
	cloudErrors                                  *prometheus.CounterVec
}

// NewMetrics declares the metrics to a registry.
func NewMetrics(registry prometheus.Registerer, version string) *Metrics {
	f := factory{registry}
	m := &Metrics{}
	m.declareClaims(f)
	m.declareNodes(f)
	m.declareDecisions(f)
	build := f.gauges("karpenter_build_info", "The version and the revision of the controller; always 1.", "version", "goversion", "goarch", "commit")
	build.WithLabelValues(version, runtime.Version(), runtime.GOARCH, "").Set(1)
	return m
}

func (m *Metrics) declareClaims(f factory) {
	m.claimsCreated = f.counters("karpenter_nodeclaims_created_total", "NodeClaims created, by reason and pool.",
		"reason", "nodepool", "min_values_relaxed")
	m.claimsTerminated = f.counters("karpenter_nodeclaims_terminated_total", "NodeClaims whose machine is gone.",
		"nodepool", "capacity_type", "zone")
	m.claimsDisrupted = f.counters("karpenter_nodeclaims_disrupted_total", "NodeClaims that Tenon deleted, by reason.",
		"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
	m.unhealthyDisrupted = f.counters("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims that were deleted because their node was unhealthy, by the node's condition.",
		"condition", "nodepool", "capacity_type", "image_id", "termination_mode")
	m.podsDisrupted = f.counters("karpenter_pods_disruption_initiated_total", "Pods that had to move because their NodeClaim was deleted.",
		"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
	m.claimTermination = f.histograms("karpenter_nodeclaims_termination_duration_seconds", "Time from a NodeClaim's deletion to its end.",
		doubling(1, 12), "nodepool")
	m.machineTermination = f.histograms("karpenter_nodeclaims_instance_termination_duration_seconds", "Time from the request to stop a machine to its end.",
		doubling(1, 11), "nodepool")
	m.evictions = f.counters("karpenter_pods_eviction_requests_total", "Requested evictions, by the API server's answer.", "code")
	m.podsDrained = f.counters("karpenter_pods_drained_total", "Pods that were evicted or deleted by a drain, by the reason of the drain.", "reason")
}

func (m *Metrics) declareNodes(f factory) {
	m.nodesCreated = f.counters("karpenter_nodes_created_total", "Nodes that registered.", "nodepool", "zone")
	m.nodesTerminated = f.counters("karpenter_nodes_terminated_total", "Nodes that were removed.", "nodepool", "zone")
	m.nodesDrained = f.counters("karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool")
	m.nodeTermination = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "karpenter_nodes_termination_duration_seconds", Help: "Time from a node's deletion to its end.", Objectives: quantiles(),
	}, []string{"nodepool"})
	f.registry.MustRegister(m.nodeTermination)
	m.nodeLifetime = f.histograms("karpenter_nodes_lifetime_duration_seconds", "Age of nodes when they were removed.", lifetimeBuckets(), "nodepool")
}

func (m *Metrics) declareDecisions(f factory) {
	m.scheduling = f.histograms("karpenter_scheduler_scheduling_duration_seconds", "Time to make a plan.", decisionBuckets(), "controller")
	m.slowPasses = f.counters("tenon_slow_passes_total", "Passes of a loop that took longer than a minute.", "controller")
	m.unschedulable = f.gauges("karpenter_scheduler_unschedulable_pods_count", "Pods for which the last plan found no machine.", "controller")
	m.planCost = f.gauges("tenon_plan_cost_dollars_per_hour",
		"The cost of the last plan that started machines, in USD per hour: as planned, its lower bound, as expected after kube-scheduler, and at worst.", "kind")
	m.bufferCost = f.gauges("tenon_capacity_buffer_cost_dollars_per_hour",
		"The cost of the room that a CapacityBuffer reserves, in USD per hour, for the first 1,000 by name.", "namespace", "name")
	m.queueDepth = f.gauges("karpenter_scheduler_queue_depth", "Pods that waited for the last plan.", "controller")
	m.ignored = prometheus.NewGauge(prometheus.GaugeOpts{Name: "karpenter_scheduler_ignored_pods_count", Help: "Pods that the last plan could not read."})
	f.registry.MustRegister(m.ignored)
	m.decisions = f.counters("karpenter_voluntary_disruption_decisions_total", "Disruptions begun.", "decision", "reason", "consolidation_type")
	m.decisionsByPool = f.counters("karpenter_voluntary_disruption_decisions_by_nodepool_total", "Disruptions begun, once for each pool with a node in the disruption.",
		"nodepool", "decision", "reason", "consolidation_type")
	m.terminateFirst = f.counters("karpenter_voluntary_disruption_terminate_first_decisions_total",
		"Disruptions begun whose replacements can start only after the nodes are gone.", "nodepool", "reason", "terminate_first_reason")
	m.deletionCostsWait = f.gauges("karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
		"Nodes whose pods get their deletion cost in a later pass.", "nodepool")
	m.deletionCosts = f.counters("karpenter_pod_deletion_cost_pod_annotation_writes_total", "Writes of deletion costs on pods, by result.", "result")
	m.evaluation = f.histograms("karpenter_voluntary_disruption_decision_evaluation_duration_seconds", "Time to decide what to disrupt.",
		decisionBuckets(), "reason", "consolidation_type")
	m.eligible = f.gauges("karpenter_voluntary_disruption_eligible_nodes", "Nodes that the last disruption pass could disrupt.", "reason")
	m.kept = f.gauges("tenon_nodes_kept", "Nodes that the last disruption pass did not disrupt, by the reason of tenon explain node.", "nodepool", "reason")
	m.requests = f.gauges("tenon_provisioning_requests",
		"ProvisioningRequests, by the last plan's answer, as in tenon explain provisioningrequest.", "progress", "reason")
	m.gangs = f.gauges("tenon_pod_groups", "PodGroups whose pods start together, by the last plan's answer, as in tenon explain podgroup.",
		"progress", "reason")
	m.judgements = f.counters("karpenter_consolidation_moves_total", "Consolidations that were evaluated, once for each pool that would lose nodes.",
		"decision", "nodepool", "policy")
	m.balance = f.histograms("karpenter_consolidation_score", "Scores of consolidations under the policy Balanced.", []float64{0.1, 0.25, 0.33, 0.5, 1, 2, 5, 10},
		"decision", "nodepool", "policy")
	timeouts := f.counters("karpenter_voluntary_disruption_consolidation_timeouts_total", "Always 0: consolidation looks at all nodes in one pass that has no time limit.",
		"consolidation_type")
	for _, kind := range []string{"multi", "single"} {
		timeouts.WithLabelValues(kind)
	}
	m.failedValidations = f.counters("karpenter_voluntary_disruption_failed_validations_total", "Planned disruptions that were not valid any more at their start.",
		"consolidation_type")
	m.queueFailures = f.counters("karpenter_voluntary_disruption_queue_failures_total", "Replacements that were not ready yet when their disruption was taken back.",
		"decision", "reason", "consolidation_type")
	m.beginAtZero()
	m.cloudDuration = f.histograms("karpenter_cloudprovider_duration_seconds", "Time from a call to the cloud to its answer.", prometheus.DefBuckets,
		"controller", "method", "provider")
	m.cloudErrors = f.counters("karpenter_cloudprovider_errors_total", "Failed calls to the cloud, by kind of error.",
		"controller", "method", "provider", "error", "nodepool")
}

// beginAtZero exports the counters of rare failures with the value 0 before the first failure, because a query for the increase of a counter misses
// the first failure if the series begins with it.
func (m *Metrics) beginAtZero() {
	for _, reason := range []v1.DisruptionReason{v1.Empty, v1.Underutilized, v1.Drifted, v1.Unhealthy, v1.Expired} {
		m.failedValidations.WithLabelValues(consolidationType(reason))
		if reason != v1.Empty { // nothing replaces an empty node
			m.queueFailures.WithLabelValues("replace", lower(reason), consolidationType(reason))
		}
	}
}

// factory declares metrics.
type factory struct{ registry prometheus.Registerer }

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	return v
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	return v
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	f.registry.MustRegister(v)
	return v
}

// ClaimCreated counts a new NodeClaim; reason is "provisioned" or the lower-case reason of the disruption that it replaces.
func (m *Metrics) ClaimCreated(reason string, claim *v1.NodeClaim) {
	m.claimsCreated.WithLabelValues(reason, poolOf(claim), cmp.Or(claim.Annotations[v1.MinValuesRelaxedAnnotationKey], "false")).Inc()
}

// ClaimTerminated counts a NodeClaim whose finalizer is gone.
func (m *Metrics) ClaimTerminated(claim *v1.NodeClaim, now time.Time) {
	m.claimsTerminated.WithLabelValues(poolOf(claim), claim.Labels[v1.CapacityTypeLabelKey], zoneOf(claim)).Inc()
	if claim.DeletionTimestamp != nil {
		m.claimTermination.WithLabelValues(poolOf(claim)).Observe(now.Sub(claim.DeletionTimestamp.Time).Seconds())
	}
	if c := v1.GetCondition(claim, v1.ConditionInstanceTerminating); c != nil {
		m.machineTermination.WithLabelValues(poolOf(claim)).Observe(now.Sub(c.LastTransitionTime.Time).Seconds())
	}
}

// ClaimDisrupted counts a NodeClaim that is deleted on purpose, and the pods that have to move. The reason is a
// v1.DisruptionReason or a word such as "expired" or "registration_timeout"; policy is the pool's consolidation policy
// if the disruption is a consolidation.
func (m *Metrics) ClaimDisrupted(reason string, claim *v1.NodeClaim, policy v1.ConsolidationPolicy, pods int) {
	labels := []string{strings.ToLower(reason), poolOf(claim), claim.Labels[v1.CapacityTypeLabelKey], snake(string(policy)), terminationMode(periodOf(claim))}
	m.claimsDisrupted.WithLabelValues(labels...).Inc()
	m.podsDisrupted.WithLabelValues(labels...).Add(float64(pods))
}

func periodOf(claim *v1.NodeClaim) *time.Duration {
	if claim.Spec.TerminationGracePeriod == nil {
		return nil
	}
	return &claim.Spec.TerminationGracePeriod.Duration
}

func terminationMode(period *time.Duration) string {
	switch {
	case period == nil:
		return "graceful"
	case *period <= 0:
		return "forceful"
	}
	return "eventual"
}

// NodeCreated counts a node that registered.
func (m *Metrics) NodeCreated(claim *v1.NodeClaim) {
	m.nodesCreated.WithLabelValues(poolOf(claim), zoneOf(claim)).Inc()
}

// NodeTerminated counts a node that was removed.
func (m *Metrics) NodeTerminated(node *corev1.Node, now time.Time) {
	pool := poolOf(node)
	m.nodesTerminated.WithLabelValues(pool, zoneOf(node)).Inc()
	m.nodeLifetime.WithLabelValues(pool).Observe(now.Sub(node.CreationTimestamp.Time).Seconds())
	if node.DeletionTimestamp != nil {
		m.nodeTermination.WithLabelValues(pool).Observe(now.Sub(node.DeletionTimestamp.Time).Seconds())
	}
}

// NodeDrained counts a node that no pod holds any longer.
func (m *Metrics) NodeDrained(pool string) { m.nodesDrained.WithLabelValues(pool).Inc() }

// EvictionAsked counts an eviction by the HTTP status of the answer.
func (m *Metrics) EvictionAsked(code string) { m.evictions.WithLabelValues(code).Inc() }

// PodDrained counts a pod that a drain moved.
func (m *Metrics) PodDrained(reason string) { m.podsDrained.WithLabelValues(reason).Inc() }

// Planned records a plan: its duration, and the numbers of waiting pods, of pods without a machine (unplaced), and of unreadable pods among these.
func (m *Metrics) Planned(controller string, took time.Duration, waiting, unplaced, invalid int) {
	m.scheduling.WithLabelValues(controller).Observe(took.Seconds())
	m.queueDepth.WithLabelValues(controller).Set(float64(waiting))
	m.unschedulable.WithLabelValues(controller).Set(float64(unplaced - invalid))
	m.ignored.Set(float64(invalid))
}

// SlowPass counts each time that the passes of a loop become slow.
func (m *Metrics) SlowPass(controller string) { m.slowPasses.WithLabelValues(controller).Inc() }

// Priced records the cost of a plan that starts machines.
func (m *Metrics) Priced(cost engine.Cost) {
	for kind, price := range map[string]float64{
		"planned": cost.LaunchesPerHour, "bound": cost.Bound, "expected": cost.Expected, "worst": cost.Worst,
	} {
		m.planCost.WithLabelValues(kind).Set(price)
	}
}

// mostBuffers bounds the CapacityBuffers that metrics name.
const mostBuffers = 1000

// Buffered records the cost of the room of buffers.
func (m *Metrics) Buffered(buffers []engine.BufferRoom) {
	m.bufferCost.Reset()
	for _, b := range buffers[:min(len(buffers), mostBuffers)] {
		m.bufferCost.WithLabelValues(b.Namespace, b.Name).Set(b.PerHour)
	}
}

// Evaluated records a search for nodes to disrupt.
func (m *Metrics) Evaluated(reason v1.DisruptionReason, took time.Duration, eligible int) {
	m.evaluation.WithLabelValues(lower(reason), consolidationType(reason)).Observe(took.Seconds())
	m.eligible.WithLabelValues(lower(reason)).Set(float64(eligible))
}

// Kept records, for each pool and reason, the number of nodes that are kept.
func (m *Metrics) Kept(kept []engine.Kept) {
	counts := map[[2]string]int{}
	for _, k := range kept {
		counts[[2]string{k.NodePool, snake(string(k.Reason.Code))}]++
	}
	m.keptFor = setCounts(m.kept, m.keptFor, counts)
}

// setCounts replaces the counts of a gauge by new ones. It returns the value of before for the next call.
func setCounts(gauges *prometheus.GaugeVec, before, counts map[[2]string]int) map[[2]string]int {
	for labels := range before {
		if counts[labels] == 0 {
			gauges.DeleteLabelValues(labels[:]...)
		}
	}
	for labels, n := range counts {
		gauges.WithLabelValues(labels[:]...).Set(float64(n))
	}
	return counts
}

// Decided counts a disruption that began, for each of its pools.
func (m *Metrics) Decided(decision string, reason v1.DisruptionReason, pools []string) {
	m.decisions.WithLabelValues(decision, lower(reason), consolidationType(reason)).Inc()
	for _, pool := range pools {
		m.decisionsByPool.WithLabelValues(pool, decision, lower(reason), consolidationType(reason)).Inc()
	}
}

// TerminatesFirst counts a disruption that began and whose replacements have no room until its nodes are gone.
func (m *Metrics) TerminatesFirst(d engine.Disruption, pools []string) {
	m.Decided("terminate-first", d.Reason, pools)
	for _, pool := range pools {
		m.terminateFirst.WithLabelValues(pool, lower(d.Reason), string(d.TerminateFirst)).Inc()
	}
}

// DeletionCostsWait records, for each pool, the number of nodes that wait for a later pass that writes deletion costs.
func (m *Metrics) DeletionCostsWait(nodes map[string]int) {
	m.deletionCostsWait.Reset()
	for pool, n := range nodes {
		m.deletionCostsWait.WithLabelValues(pool).Set(float64(n))
	}
}

// DeletionCostWritten counts a pod whose deletion cost was to be written.
func (m *Metrics) DeletionCostWritten(result string) { m.deletionCosts.WithLabelValues(result).Inc() }

// Judged counts the moves that consolidation considered.
func (m *Metrics) Judged(judgements []engine.Judgement) {
	for _, j := range judgements {
		decision := "rejected"
		if j.Approved {
			decision = "approved"
		}
		m.judgements.WithLabelValues(decision, j.NodePool, string(j.Policy)).Inc()
		if j.Balance != nil {
			m.balance.WithLabelValues(decision, j.NodePool, string(j.Policy)).Observe(j.Balance.Score)
		}
	}
}

// UnhealthyDisrupted counts a NodeClaim that was deleted because its node had the condition; within is the longest time for the drain, nil
// if the claim's own period holds.
func (m *Metrics) UnhealthyDisrupted(condition string, claim *v1.NodeClaim, within *time.Duration) {
	mode := terminationMode(cmp.Or(within, periodOf(claim)))
	m.unhealthyDisrupted.WithLabelValues(snake(condition), poolOf(claim), claim.Labels[v1.CapacityTypeLabelKey], claim.Status.ImageID, mode).Inc()
}

// Overtaken counts a disruption that was no longer right when it was to begin.
func (m *Metrics) Overtaken(reason v1.DisruptionReason) {
	m.failedValidations.WithLabelValues(consolidationType(reason)).Inc()
}

// QueueFailed counts replacements that were not ready when their disruption was taken back.
func (m *Metrics) QueueFailed(decision string, reason v1.DisruptionReason, replacements int) {
	m.queueFailures.WithLabelValues(decision, lower(reason), consolidationType(reason)).Add(float64(replacements))
}

func consolidationType(reason v1.DisruptionReason) string {
	switch reason {
	case v1.Empty:
		return "empty"
	case v1.Underutilized:
		return "multi"
	}
	return ""
}

func lower(reason v1.DisruptionReason) string { return strings.ToLower(string(reason)) }

// snake turns CamelCase into camel_case.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

func poolOf(o metav1.Object) string { return o.GetLabels()[v1.NodePoolLabelKey] }
func zoneOf(o metav1.Object) string { return o.GetLabels()[corev1.LabelTopologyZone] }
