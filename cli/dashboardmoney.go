package cli

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// savingsOf returns a function that makes the document of tenon savings at its first call, because it needs a plan for all pods.
func savingsOf(o planOptions, reading *scenario.Reading) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		own := *reading // notes are added to it
		own.Notes = slices.Clone(reading.Notes)
		s, err := (&savingsOptions{planOptions: o}).completed(&own)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		err = writeRecord(&text, "Savings", explain.NewSavings(s, own.Options))
		return text.Bytes(), err
	})
}

// pageBuffers returns the rows of tenon plan for CapacityBuffers.
func pageBuffers(buffers []engine.BufferRoom) []dashboard.Buffer {
	var out []dashboard.Buffer
	for _, b := range buffers {
		out = append(out, dashboard.Buffer{Namespace: b.Namespace, Name: b.Name, Size: b.Size, Existing: b.Existing, Coming: b.Coming, PricePerHour: b.PerHour})
	}
	return out
}

// namespaceCosts divides the cost of the table's nodes among namespaces. Of each node's price, pods pay the requested share of the node's scarcest
// resource, in proportion to each pod's request for its own scarcest resource. The rest of the price is idle, and no namespace pays it.
func namespaceCosts(s *engine.Snapshot, t *nodeTable) []dashboard.NamespaceCost {
	prices := map[string]float64{}
	for i := range t.Nodes {
		if p := t.Nodes[i].PricePerHour; p != nil {
			prices[t.Nodes[i].Node] = *p
		}
	}
	allocatable := map[string]corev1.ResourceList{}
	for _, n := range s.Nodes {
		allocatable[n.Name] = n.Status.Allocatable
	}
	type ask struct {
		namespace string
		share     float64
	}
	asks, used := map[string][]ask{}, map[string]map[corev1.ResourceName]float64{}
	byName := map[string]*dashboard.NamespaceCost{}
	for _, pod := range s.Pods {
		node := pod.Spec.NodeName
		if allocatable[node] == nil || kube.IsTerminal(pod) {
			continue
		}
		if byName[pod.Namespace] == nil {
			byName[pod.Namespace] = &dashboard.NamespaceCost{Namespace: pod.Namespace}
		}
		byName[pod.Namespace].Pods++
		if used[node] == nil {
			used[node] = map[corev1.ResourceName]float64{}
		}
		most, requests := 0.0, kube.PodRequests(pod)
		for resource := range requests {
			if has := amountOf(allocatable[node], resource); has > 0 && resource != corev1.ResourcePods { // as in tenon savings
				share := amountOf(requests, resource) / has
				used[node][resource] += share
				most = max(most, share)
			}
		}
		asks[node] = append(asks[node], ask{pod.Namespace, most})
	}
	for _, n := range s.Nodes { // in order, so that sums are always the same
		whole, sum := 0.0, 0.0
		for _, share := range used[n.Name] {
			whole = max(whole, min(share, 1))
		}
		for _, a := range asks[n.Name] {
			sum += a.share
		}
		for _, a := range asks[n.Name] {
			if sum > 0 {
				byName[a.namespace].PricePerHour += prices[n.Name] * whole * a.share / sum
			}
		}
	}
	var out []dashboard.NamespaceCost
	for _, c := range byName {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b dashboard.NamespaceCost) int {
		return cmp.Or(cmp.Compare(b.PricePerHour, a.PricePerHour), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}
