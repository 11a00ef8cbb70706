package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// load holds the requests and limits of the pods of one node.
type load struct{ requests, limits, daemonRequests, daemonLimits corev1.ResourceList }

func (x *exposition) loads() map[string]*load {
	loads := map[string]*load{}
	for _, n := range x.s.Nodes {
		loads[n.Name] = &load{corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}}
	}
	for _, pod := range x.s.Pods {
		l := loads[pod.Spec.NodeName]
		if l == nil || kube.IsTerminal(pod) {
			continue
		}
		requests, limits := kube.PodRequests(pod), podLimits(pod)
		add(l.requests, requests)
		add(l.limits, limits)
		if kube.OwnedByDaemonSet(pod) {
			add(l.daemonRequests, requests)
			add(l.daemonLimits, limits)
		}
	}
	return loads
}

func podLimits(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(sum, pod.Spec.Containers[i].Resources.Limits)
	}
	return sum
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		have := sum[name]
		have.Add(q)
		sum[name] = have
	}
}

func (x *exposition) sendNodes() {
	loads := x.loads()
	requested, allocatable := corev1.ResourceList{}, corev1.ResourceList{}
	managed := map[string]bool{}
	for _, c := range x.s.NodeClaims {
		managed[c.Status.ProviderID] = c.Status.ProviderID != ""
	}
	for _, n := range x.s.Nodes {
		labels := []string{n.Name, string(n.Status.Phase), strconv.FormatBool(managed[n.Spec.ProviderID])}
		for _, key := range x.nodeLabels {
			labels = append(labels, n.Labels[key])
		}
		l := loads[n.Name]
		add(requested, l.requests)
		add(allocatable, n.Status.Allocatable)
		overhead := corev1.ResourceList{}
		for name, q := range n.Status.Capacity {
			left := q.DeepCopy()
			left.Sub(n.Status.Allocatable[name])
			overhead[name] = left
		}
		x.send("karpenter_nodes_current_lifetime_seconds", x.s.Now.Sub(n.CreationTimestamp.Time).Seconds(), labels...)
		x.sendResources("karpenter_nodes_allocatable", n.Status.Allocatable, labels)
		x.sendResources("karpenter_nodes_total_pod_requests", l.requests, labels)
		x.sendResources("karpenter_nodes_total_pod_limits", l.limits, labels)
		x.sendResources("karpenter_nodes_total_daemon_requests", l.daemonRequests, labels)
		x.sendResources("karpenter_nodes_total_daemon_limits", l.daemonLimits, labels)
		x.sendResources("karpenter_nodes_system_overhead", overhead, labels)
	}
	for name, q := range allocatable {
		if have := requested[name]; !q.IsZero() {
			x.send("karpenter_cluster_utilization_percent", 100*have.AsApproximateFloat64()/q.AsApproximateFloat64(), resourceType(name))
		}
	}
}

func (x *exposition) sendResources(name string, list corev1.ResourceList, labels []string) {
	for resource, q := range list {
		x.send(name, q.AsApproximateFloat64(), append(labels[:len(labels):len(labels)], resourceType(resource))...)
	}
}

func (x *exposition) sendPools() {
	cost, listed := x.costs()
	for _, p := range x.s.NodePools {
		for name, q := range p.Spec.Limits {
			x.send("karpenter_nodepools_limit", q.AsApproximateFloat64(), resourceType(name), p.Name)
		}
		for name, q := range p.Status.Resources {
			x.send("karpenter_nodepools_usage", q.AsApproximateFloat64(), resourceType(name), p.Name)
		}
		x.send("karpenter_nodepools_cost_total", cost[p.Name], p.Name)
		x.send("tenon_nodepools_list_cost_total", listed[p.Name], p.Name)
		for _, reason := range v1.DisruptionReasons() {
			a := budget.PoolAllowance(x.s, p, reason)
			allowed := float64(a.Allowed)
			if a.Allowed == math.MaxInt {
				allowed = math.Inf(1)
			}
			x.send("karpenter_nodepools_allowed_disruptions", allowed, p.Name, lower(reason))
			x.send("karpenter_nodepools_nodes_consuming_budgets", float64(a.Disrupting), p.Name, lower(reason))
		}
	}
}

// costs returns the cost of the machines of each pool, at corrected and at listed prices.
func (x *exposition) costs() (cost, listed map[string]float64) {
	prices := inventory.NewPriceBook(x.s)
	cost, listed = map[string]float64{}, map[string]float64{}
	for _, c := range x.s.NodeClaims {
		if c.Status.ProviderID == "" || c.Spec.NodeClassRef == nil {
			continue
		}
		if price, known := prices.Price(c.Labels, c.Spec.NodeClassRef); known {
			cost[poolOf(c)] += price
			listed[poolOf(c)] += prices.ListPrice(c.Labels, c.Spec.NodeClassRef)
		}
	}
	return cost, listed
}

func (x *exposition) sendCommitments() {
	for _, u := range inventory.CommitmentUses(x.s) {
		x.send("tenon_commitment_committed_dollars_per_hour", u.CommittedPerHour, u.Name)
		x.send("tenon_commitment_used_dollars_per_hour", u.UsedPerHour, u.Name)
		x.send("tenon_commitment_idle_dollars_per_hour", u.IdlePerHour, u.Name)
	}
}

func (x *exposition) sendPods() {
	if len(x.s.Pods) > mostPods {
		return
	}
	nodes := map[string]*corev1.Node{}
	for _, n := range x.s.Nodes {
		nodes[n.Name] = n
	}
	for _, pod := range x.s.Pods {
		ready := podReady(pod)
		labels := map[string]string{}
		if n := nodes[pod.Spec.NodeName]; n != nil {
			labels = n.Labels
		}
		x.send("karpenter_pods_state", 1, pod.Name, pod.Namespace, ownerPath(pod), pod.Spec.NodeName,
			strconv.FormatBool(pod.Spec.NodeName != ""), labels[v1.NodePoolLabelKey], labels[corev1.LabelTopologyZone],
			labels[corev1.LabelArchStable], labels[v1.CapacityTypeLabelKey], labels[corev1.LabelInstanceTypeStable],
			string(pod.Status.Phase), strconv.FormatBool(ready), strconv.FormatBool(labels[v1.NodePoolLabelKey] != ""))
		if kube.IsTerminal(pod) {
			continue
		}
		age := x.s.Now.Sub(pod.CreationTimestamp.Time).Seconds()
		if pod.Spec.NodeName == "" {
			x.send("karpenter_pods_unbound_time_seconds", age, pod.Name, pod.Namespace, strconv.FormatBool(len(pod.Spec.ResourceClaims) > 0))
		}
		if !ready {
			x.send("karpenter_pods_unstarted_time_seconds", age, pod.Name, pod.Namespace)
		}
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ownerPath returns the path of the pod's first owner in the API.
func ownerPath(pod *corev1.Pod) string {
	if len(pod.OwnerReferences) == 0 {
		return ""
	}
	o := pod.OwnerReferences[0]
	return fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", o.APIVersion, pod.Namespace, strings.ToLower(o.Kind), o.Name)
}

func (x *exposition) sendConditionsOf(kind string, o client.Object) {
	for _, c := range conditionsOf(o) {
		labels := []string{o.GetNamespace(), o.GetName(), c.Type, string(c.Status), c.Reason}
		x.send("operator_"+kind+"_status_condition_count", 1, labels...)
		x.send("operator_"+kind+"_status_condition_current_status_seconds", max(0, x.s.Now.Sub(c.LastTransitionTime.Time).Seconds()), labels...)
	}
	if t := o.GetDeletionTimestamp(); t != nil {
		x.send("operator_"+kind+"_termination_current_time_seconds", max(0, x.s.Now.Sub(t.Time).Seconds()), o.GetNamespace(), o.GetName())
	}
}
