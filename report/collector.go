package report

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// mostPods bounds the pods that have series of their own; if there are more, only sums are exported.
const mostPods = 10_000

// StateCollector computes the metrics that describe the state of the cluster, from one snapshot, when they are asked
// for.
type StateCollector struct {
	snapshot func(context.Context) (*engine.Snapshot, error)
	// nodeLabels are the label keys of nodes that become labels of node metrics.
	nodeLabels []string
	families   map[string]*prometheus.Desc
}

// NewStateCollector returns a collector; domains are the domains of the labels that only this provider's nodes have.
func NewStateCollector(snapshot func(context.Context) (*engine.Snapshot, error), domains ...string) *StateCollector {
	c := &StateCollector{snapshot: snapshot, nodeLabels: v1.WellKnownLabels(), families: map[string]*prometheus.Desc{}}
	for _, d := range domains {
		c.nodeLabels = append(c.nodeLabels, v1.ProviderLabels(d)...)
	}
	slices.Sort(c.nodeLabels)
	c.nodeLabels = slices.Compact(c.nodeLabels)
	c.declare()
	return c
}

func (c *StateCollector) declare() {
	node := []string{"node_name", "phase", "managed"}
	for _, key := range c.nodeLabels {
		node = append(node, labelName(key))
	}
	perResource := append(slices.Clone(node), "resource_type")
	family := func(name, help string, labels ...string) {
		c.families[name] = prometheus.NewDesc(name, help, labels, nil)
	}
	family("karpenter_nodes_current_lifetime_seconds", "Age of nodes.", node...)
	family("karpenter_nodes_allocatable", "The allocatable resources of nodes.", perResource...)
	family("karpenter_nodes_total_pod_requests", "The requests of the pods of nodes.", perResource...)
	family("karpenter_nodes_total_pod_limits", "The limits of the pods of nodes.", perResource...)
	family("karpenter_nodes_total_daemon_requests", "The requests of the DaemonSet pods of nodes.", perResource...)
	family("karpenter_nodes_total_daemon_limits", "The limits of the DaemonSet pods of nodes.", perResource...)
	family("karpenter_nodes_system_overhead", "The resources of nodes that are not allocatable.", perResource...)
	family("karpenter_cluster_utilization_percent", "Share of the nodes' allocatable resources that pods request.", "resource_type")
	family("karpenter_nodepools_limit", "Limits of pools.", "resource_type", "nodepool")
	family("karpenter_nodepools_usage", "The resources of a pool's nodes and NodeClaims.", "resource_type", "nodepool")
	family("karpenter_nodepools_cost_total", "The price of the nodes of a pool, in USD per hour.", "nodepool")
	family("tenon_nodepools_list_cost_total", "The list price of the nodes of a pool, without NodeOverlays, in USD per hour.", "nodepool")
	family("tenon_commitment_committed_dollars_per_hour", "The price of commitments, used or not, in USD per hour.", "commitment")
	family("tenon_commitment_used_dollars_per_hour", "The part of the price of commitments that machines of the cluster use, in USD per hour.", "commitment")
	family("tenon_commitment_idle_dollars_per_hour", "The part of the price of commitments that no machine uses, in USD per hour.", "commitment")
	family("karpenter_nodepools_allowed_disruptions", "Nodes that the budgets of pools allow to be disrupted.", "nodepool", "reason")
	family("karpenter_nodepools_nodes_consuming_budgets", "Nodes that count against the disruption budgets of pools.", "nodepool", "reason")
	family("karpenter_cluster_state_node_count", "Nodes and machines in the controller's cache.")
	family("karpenter_cluster_state_synced", "1 if the controller's cache holds the whole cluster, else 0.")
	family("karpenter_cluster_state_unsynced_time_seconds", "Time since the controller's cache last held the whole cluster.")
	family("karpenter_pods_state", "Pods, by phase, owner and node.", "name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch",
		"capacity_type", "instance_type", "phase", "ready", "managed")
	family("karpenter_pods_unbound_time_seconds", "Age of pods without a node.", "name", "namespace", "dynamic_resources")
	family("karpenter_pods_unstarted_time_seconds", "Age of pods that are not ready.", "name", "namespace")
	for _, kind := range []string{"node", "nodeclaim", "nodepool"} {
		family("operator_"+kind+"_status_condition_count", "Number of conditions, by type, status and reason.", "namespace", "name", "type", "status", "reason")
		family("operator_"+kind+"_status_condition_current_status_seconds", "Time since the last change of a condition's status.",
			"namespace", "name", "type", "status", "reason")
		family("operator_"+kind+"_termination_current_time_seconds", "Time since the deletion of objects that are still there.", "namespace", "name")
	}
}

// labelName returns the name of a node's label as a label of a metric.
func labelName(key string) string {
	_, name, ok := strings.Cut(key, "/")
	if !ok {
		name = key
	}
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}

// Describe describes nothing, because the metrics depend on the cluster.
func (c *StateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect computes the metrics.
func (c *StateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := c.snapshot(ctx)
	x := &exposition{StateCollector: c, out: out, s: s}
	if err != nil {
		x.send("karpenter_cluster_state_synced", 0)
		return
	}
	x.send("karpenter_cluster_state_synced", 1)
	x.send("karpenter_cluster_state_unsynced_time_seconds", 0)
	x.send("karpenter_cluster_state_node_count", float64(len(s.Nodes)))
	x.sendNodes()
	x.sendPools()
	x.sendCommitments()
	x.sendPods()
	x.sendConditions()
}

// exposition is one answer to a scrape.
type exposition struct {
	*StateCollector
	out chan<- prometheus.Metric
	s   *engine.Snapshot
}

func (x *exposition) send(name string, value float64, labels ...string) {
	x.out <- prometheus.MustNewConstMetric(x.families[name], prometheus.GaugeValue, value, clean(labels)...)
}

// clean replaces bytes that are not valid UTF-8, because one such label would make the whole answer invalid.
func clean(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "?")
	}
	return labels
}

func (x *exposition) sendConditions() {
	for _, n := range x.s.Nodes {
		x.sendConditionsOf("node", n)
	}
	for _, c := range x.s.NodeClaims {
		x.sendConditionsOf("nodeclaim", c)
	}
	for _, p := range x.s.NodePools {
		x.sendConditionsOf("nodepool", p)
	}
}

func resourceType(name corev1.ResourceName) string {
	return strings.ReplaceAll(strings.ToLower(string(name)), "-", "_")
}

// Unsynced is a collector that reports that the cluster is not known yet. A process that waits for the right to read a kind has no snapshot, and
// would report nothing without it.
type Unsynced struct {
	clock   clock.PassiveClock
	since   time.Time
	ended   atomic.Bool
	synced  *prometheus.Desc
	seconds *prometheus.Desc
}

// NewUnsynced returns an Unsynced for a process that begins to read the cluster now.
func NewUnsynced(clock clock.PassiveClock) *Unsynced {
	families := NewStateCollector(nil).families
	return &Unsynced{clock: clock, since: clock.Now(), synced: families["karpenter_cluster_state_synced"], seconds: families["karpenter_cluster_state_unsynced_time_seconds"]}
}

// End records that the cluster is known.
func (u *Unsynced) End() { u.ended.Store(true) }

// Describe describes nothing, like that of a StateCollector.
func (u *Unsynced) Describe(chan<- *prometheus.Desc) {}

// Collect reports that the cluster is not known, and since when it is not.
func (u *Unsynced) Collect(out chan<- prometheus.Metric) {
	if u.ended.Load() {
		return
	}
	out <- prometheus.MustNewConstMetric(u.synced, prometheus.GaugeValue, 0)
	out <- prometheus.MustNewConstMetric(u.seconds, prometheus.GaugeValue, u.clock.Since(u.since).Seconds())
}
