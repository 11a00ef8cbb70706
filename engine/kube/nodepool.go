package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// FindClass returns the class without corrections by NodeOverlays. It returns nil if the snapshot has none.
func FindClass(s *engine.Snapshot, ref *v1.NodeClassReference) *engine.Class {
	for i := range s.Classes {
		if ref != nil && s.Classes[i].Ref == *ref && len(s.Classes[i].Pools) == 0 {
			return &s.Classes[i]
		}
	}
	return nil
}

// ClassOf returns the pool's class, with the corrections of NodeOverlays for the pool. It returns nil if there is none.
func ClassOf(s *engine.Snapshot, pool *v1.NodePool) *engine.Class {
	return ClassFor(s, pool.Spec.Template.Spec.NodeClassRef, pool.Name)
}

// ClassFor returns the class with the reference, with the corrections for the pool with the name, like ClassOf.
func ClassFor(s *engine.Snapshot, ref *v1.NodeClassReference, pool string) *engine.Class {
	for i := range s.Classes {
		if c := &s.Classes[i]; ref != nil && c.Ref == *ref && slices.Contains(c.Pools, pool) {
			return c
		}
	}
	return FindClass(s, ref)
}

// PoolProblem returns the reason why the pool cannot start machines now. A pool without a Ready condition is treated as ready, because it is new or
// was read from a file.
func PoolProblem(pool *v1.NodePool, class *engine.Class) engine.Reason {
	problem := func(format string, args ...any) engine.Reason {
		return engine.Reason{Code: engine.NodePoolNotReady, NodePool: pool.Name, Have: fmt.Sprintf(format, args...)}
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	ready := v1.GetCondition(pool, v1.ConditionReady)
	switch {
	case pool.DeletionTimestamp != nil:
		return problem("it is being deleted")
	case pool.Annotations[v1.RetireAnnotationKey] != "" && pool.Annotations[v1.RetireAnnotationKey] != "false":
		return problem("it is retired and starts no more machines")
	case pool.Spec.Replicas != nil:
		return problem("it has a fixed number of replicas and takes no pods by itself")
	case ref == nil:
		return problem("it names no node class")
	case class == nil:
		return problem("%s %s is not found", ref.Kind, ref.Name)
	case strings.Contains(class.Problem, ref.Kind+" "+ref.Name):
		return problem("%s", class.Problem)
	case class.Problem != "":
		return problem("%s %s: %s", ref.Kind, ref.Name, class.Problem)
	case ready != nil && ready.Status != "True":
		return problem("%s", unready(pool, ready))
	}
	return engine.Reason{}
}

// unready returns why the pool is not ready: the message of the failing condition.
func unready(pool *v1.NodePool, ready *metav1.Condition) string {
	for _, name := range pool.DependentConditions() {
		if c := v1.GetCondition(pool, name); c != nil && c.Status != "True" && c.Message != "" {
			return c.Message
		}
	}
	return cmp.Or(ready.Message, fmt.Sprintf("its Ready condition is %s (%s)", ready.Status, ready.Reason))
}

// PoolLabels returns the labels of every machine of the pool, of any type.
func PoolLabels(pool *v1.NodePool) map[string]string {
	labels := map[string]string{v1.NodePoolLabelKey: pool.Name, v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}
	for key, value := range pool.Spec.Template.Labels {
		labels[v1.NormalizeLabel(key)] = value
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	labels[ref.LabelKey()] = ref.Name
	return labels
}

// ByName returns the list sorted by name, because the order of a sum of prices affects its last bits.
func ByName[T metav1.Object](list []T) []T {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func WeightOf(pool *v1.NodePool) int32 {
	if pool.Spec.Weight == nil {
		return 0
	}
	return *pool.Spec.Weight
}

// MinMemoryForPods returns the bytes of memory that a new machine must leave to pods without a memory request. The pool's annotation sets them.
// Without the annotation, they are `usual`. ok is false if the annotation cannot be read; then it is ignored.
func MinMemoryForPods(pool *v1.NodePool, usual int64) (floor int64, ok bool) {
	text, said := pool.Annotations[v1.MinMemoryAnnotationKey]
	if !said {
		return usual, true
	}
	q, err := resource.ParseQuantity(strings.TrimSpace(text))
	if err != nil || q.Sign() < 0 {
		return usual, false
	}
	return q.Value(), true
}
