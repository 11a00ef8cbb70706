package convert

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Metric is a metric that Karpenter served earlier. New is the metric that is served instead; empty if there is none.
type Metric struct{ Old, New string }

// OldMetrics returns the metrics that are not served any more, sorted by name.
func OldMetrics() []Metric {
	return []Metric{
		{"karpenter_allocation_controller_scheduling_duration_seconds", "karpenter_scheduler_scheduling_duration_seconds"},
		{"karpenter_cloudprovider_instance_type_price_estimate", "karpenter_cloudprovider_instance_type_offering_price_estimate"},
		{"karpenter_consistency_errors", ""},
		{"karpenter_deprovisioning_actions_performed", "karpenter_voluntary_disruption_decisions_total"},
		{"karpenter_deprovisioning_consolidation_timeouts", "karpenter_voluntary_disruption_consolidation_timeouts_total"},
		{"karpenter_deprovisioning_eligible_machines", "karpenter_voluntary_disruption_eligible_nodes"},
		{"karpenter_deprovisioning_evaluation_duration_seconds", "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"},
		{"karpenter_deprovisioning_replacement_machine_initialized_seconds", ""},
		{"karpenter_deprovisioning_replacement_machine_launch_failure_counter", "karpenter_voluntary_disruption_queue_failures_total"},
		{"karpenter_disruption_actions_performed_total", "karpenter_voluntary_disruption_decisions_total"},
		{"karpenter_disruption_budgets_allowed_disruptions", "karpenter_nodepools_allowed_disruptions"},
		{"karpenter_disruption_consolidation_timeouts_total", "karpenter_voluntary_disruption_consolidation_timeouts_total"},
		{"karpenter_disruption_eligible_nodes", "karpenter_voluntary_disruption_eligible_nodes"},
		{"karpenter_disruption_evaluation_duration_seconds", "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"},
		{"karpenter_disruption_nodes_disrupted_total", "karpenter_nodeclaims_disrupted_total"},
		{"karpenter_disruption_pods_disrupted_total", "karpenter_pods_disruption_initiated_total"},
		{"karpenter_disruption_queue_depth", ""},
		{"karpenter_disruption_replacement_nodeclaim_failures_total", "karpenter_voluntary_disruption_queue_failures_total"},
		{"karpenter_disruption_replacement_nodeclaim_initialized_seconds", ""},
		{"karpenter_ignored_pod_count", "karpenter_scheduler_ignored_pods_count"},
		{"karpenter_interruption_actions_performed", ""},
		{"karpenter_interruption_actions_performed_total", ""},
		{"karpenter_interruption_deleted_messages", "karpenter_interruption_deleted_messages_total"},
		{"karpenter_interruption_message_latency_time_seconds", "karpenter_interruption_message_queue_duration_seconds"},
		{"karpenter_interruption_received_messages", "karpenter_interruption_received_messages_total"},
		{"karpenter_machines_created", "karpenter_nodeclaims_created_total"},
		{"karpenter_machines_disrupted", "karpenter_nodeclaims_disrupted_total"},
		{"karpenter_machines_drifted", ""},
		{"karpenter_machines_initialized", ""},
		{"karpenter_machines_launched", ""},
		{"karpenter_machines_registered", ""},
		{"karpenter_machines_terminated", "karpenter_nodeclaims_terminated_total"},
		{"karpenter_nodeclaims_created", "karpenter_nodeclaims_created_total"},
		{"karpenter_nodeclaims_disrupted", "karpenter_nodeclaims_disrupted_total"},
		{"karpenter_nodeclaims_drifted", ""},
		{"karpenter_nodeclaims_initialized", ""},
		{"karpenter_nodeclaims_launched", ""},
		{"karpenter_nodeclaims_registered", ""},
		{"karpenter_nodeclaims_terminated", "karpenter_nodeclaims_terminated_total"},
		{"karpenter_nodepool_limit", "karpenter_nodepools_limit"},
		{"karpenter_nodepool_usage", "karpenter_nodepools_usage"},
		{"karpenter_nodepool_usage_pct", ""},
		{"karpenter_nodes_created", "karpenter_nodes_created_total"},
		{"karpenter_nodes_eviction_queue_depth", ""},
		{"karpenter_nodes_leases_deleted", ""},
		{"karpenter_nodes_leases_deleted_total", ""},
		{"karpenter_nodes_terminated", "karpenter_nodes_terminated_total"},
		{"karpenter_nodes_termination_time_seconds", "karpenter_nodes_termination_duration_seconds"},
		{"karpenter_pods_pods_drained_total", "karpenter_pods_drained_total"},
		{"karpenter_pods_startup_time_seconds", "karpenter_pods_startup_duration_seconds"},
		{"karpenter_provisioner_limit", "karpenter_nodepools_limit"},
		{"karpenter_provisioner_scheduling_duration_seconds", "karpenter_scheduler_scheduling_duration_seconds"},
		{"karpenter_provisioner_scheduling_queue_depth", "karpenter_scheduler_queue_depth"},
		{"karpenter_provisioner_scheduling_simulation_duration_seconds", "karpenter_scheduler_scheduling_duration_seconds"},
		{"karpenter_provisioner_usage", "karpenter_nodepools_usage"},
		{"karpenter_provisioner_usage_pct", ""},
		{"karpenter_scheduler_ignored_pod_count", "karpenter_scheduler_ignored_pods_count"},
	}
}

// metricName matches a metric in a rule, a query or a dashboard.
var metricName = regexp.MustCompile(`\bkarpenter_\w+`)

// nameMetrics notes the metrics in an object of any kind that are not served any more. It changes nothing, because the right replacement depends
// on the labels of the metric.
func (c *conversion) nameMetrics(o *object, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		for _, name := range metricName.FindAllString(n.Value, -1) {
			c.nameMetric(o, name)
		}
	}
	for _, child := range n.Content {
		c.nameMetrics(o, child)
	}
}

func (c *conversion) nameMetric(o *object, name string) {
	for _, series := range []string{"", "_count", "_sum", "_bucket"} { // the series of a histogram or a summary
		base, found := strings.CutSuffix(name, series)
		i := slices.IndexFunc(OldMetrics(), func(m Metric) bool { return m.Old == base })
		if !found || i < 0 {
			continue
		}
		if to := OldMetrics()[i].New; to != "" {
			c.note(ToDo, o, "metric %s is not served any more: ask for %s, and look at its labels", name, to+series)
		} else {
			c.note(ToDo, o, "metric %s is not served any more, nor anything in its place", name)
		}
		return
	}
}
