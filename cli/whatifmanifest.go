package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/advice"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// manifests returns the cluster's objects with which a change may begin.
func manifests(s *engine.Snapshot) []dashboard.Manifest {
	var out []dashboard.Manifest
	add := func(kind, name string, of func() map[string]any) {
		out = append(out, dashboard.Manifest{Kind: kind, Name: name, Text: func() (string, error) { return manifestText(of()) }})
	}
	for _, o := range inOrder(s.NodePools) {
		add("NodePool", o.Name, func() map[string]any { return bare(v1.GroupVersion.String(), "NodePool", o.ObjectMeta, o.Spec) })
	}
	for _, pool := range inOrder(s.NodePools)[:min(len(s.NodePools), mostQuestioned)] {
		for _, q := range usualQuestions(s, pool) {
			add(dashboard.ChangedPool, pool.Name+": "+q.Change, func() map[string]any {
				return bare(v1.GroupVersion.String(), "NodePool", q.Pool.ObjectMeta, q.Pool.Spec)
			})
		}
	}
	for _, o := range inOrder(s.NodeOverlays) {
		add("NodeOverlay", o.Name, func() map[string]any {
			return bare(v1alpha1.GroupVersion.String(), "NodeOverlay", o.ObjectMeta, o.Spec)
		})
	}
	for _, o := range inOrder(s.CapacityBuffers) {
		add("CapacityBuffer", o.Namespace+"/"+o.Name, func() map[string]any {
			return bare(autoscalingv1beta1.GroupVersion.String(), "CapacityBuffer", o.ObjectMeta, o.Spec)
		})
	}
	owner, deployments := scenario.DeploymentsOf(s), map[string]int{}
	for _, p := range s.Pods {
		if name := owner(p); name != "" && kube.IsActive(p) {
			deployments[p.Namespace+"/"+name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(deployments)) {
		namespace, plain, _ := strings.Cut(name, "/")
		add("Deployment", name, func() map[string]any {
			return bare("apps/v1", "Deployment", metav1.ObjectMeta{Namespace: namespace, Name: plain}, map[string]int{"replicas": deployments[name]})
		})
	}
	return out
}

// mostQuestioned is the largest number of pools with offered changes.
const mostQuestioned = 20

// usualQuestions returns common changes of a pool: more that it allows, and settings that make its nodes stay longer or shorter.
func usualQuestions(s *engine.Snapshot, pool *v1.NodePool) []advice.Changed {
	out := advice.PoolChanges(s, pool)
	for i := range out {
		change := &out[i].Change
		for _, key := range out[i].Keys { // the last part of a label's key is enough here
			*change = strings.ReplaceAll(*change, key, key[strings.LastIndexByte(key, '/')+1:])
		}
		if len(pool.Spec.Limits) > 0 && out[i].Pool.Spec.Limits == nil { // without limits, the change is the same as limits that are high enough
			*change = "no limits"
		}
		*change, _, _ = strings.Cut(*change, ":") // drops the reason of the suggestion
	}
	add := func(change string, apply func(pool *v1.NodePool)) {
		changed := pool.DeepCopy()
		apply(changed)
		out = append(out, advice.Changed{Change: change, Pool: changed})
	}
	if !slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r v1.Requirement) bool {
		e := kube.PoolExpression(r)
		return e.Key == v1.CapacityTypeLabelKey && !e.Admits(v1.CapacityTypeSpot, true)
	}) {
		add("on-demand alone", func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, v1.Requirement{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{v1.CapacityTypeOnDemand}})
		})
	}
	for _, policy := range []v1.ConsolidationPolicy{v1.WhenEmpty, v1.WhenEmptyOrUnderutilized, v1.Balanced} {
		if policy != pool.Spec.Disruption.ConsolidationPolicy {
			add("consolidationPolicy "+string(policy), func(p *v1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = policy })
		}
	}
	for _, after := range []string{"0s", "5m", "1h"} {
		var parsed v1.NillableDuration
		if err := parsed.UnmarshalJSON([]byte(strconv.Quote(after))); err == nil {
			add("consolidateAfter "+after, func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = parsed })
		}
	}
	for _, payback := range []string{"1h", "24h"} {
		add("payback "+payback, func(p *v1.NodePool) { p.Annotations = kube.With(p.Annotations, v1.PaybackAnnotationKey, payback) })
	}
	return out
}

// inOrder sorts objects by namespace and name.
func inOrder[T metav1.Object](list []T) []T {
	return slices.SortedFunc(slices.Values(list), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// bare returns an object as a user would write it, without the fields that the API server and controllers add.
func bare(apiVersion, kind string, meta metav1.ObjectMeta, spec any) map[string]any {
	own := map[string]any{"name": meta.Name}
	if meta.Namespace != "" {
		own["namespace"] = meta.Namespace
	}
	if len(meta.Labels) > 0 {
		own["labels"] = meta.Labels
	}
	annotations := maps.Clone(meta.Annotations)
	for _, key := range []string{corev1.LastAppliedConfigAnnotation, v1.NodePoolHashAnnotationKey, v1.NodePoolHashVersionAnnotationKey} {
		delete(annotations, key)
	}
	if len(annotations) > 0 {
		own["annotations"] = annotations
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": own, "spec": spec}
}

// manifestText writes an object as YAML. The fields that identify the object come first.
func manifestText(object map[string]any) (string, error) {
	var out strings.Builder
	for _, key := range []string{"apiVersion", "kind", "metadata", "spec"} {
		text, err := yaml.Marshal(map[string]any{key: object[key]})
		if err != nil {
			return "", fmt.Errorf("write the object: %w", err)
		}
		out.Write(text)
	}
	return out.String(), nil
}
