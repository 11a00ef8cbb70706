package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// An OldName is an annotation that protected pods or nodes under Karpenter before v1beta1 and has no effect any more.
type OldName struct {
	Old, New string
	// Objects have it, and not the new one: "Pod default/a", in the snapshot's order.
	Objects []string
}

// Who returns the names of some of the objects.
func (o OldName) Who() string { return engine.AtMost(o.Objects, 3) }

// Sentence describes the effect.
func (o OldName) Sentence() string {
	return fmt.Sprintf("annotation %s is not read any more, and protects nothing: its name is %s now", o.Old, o.New)
}

// OldNames returns the annotations of older APIs that pods and nodes have.
func OldNames(s *engine.Snapshot) (out []OldName) {
	evict := OldName{Old: v1.DoNotEvictAnnotationKey, New: v1.DoNotDisruptAnnotationKey}
	consolidate := OldName{Old: v1.DoNotConsolidateAnnotationKey, New: v1.DoNotDisruptAnnotationKey}
	names := []*OldName{&evict, &consolidate}
	look := func(object string, meta *metav1.ObjectMeta) {
		for _, n := range names {
			if _, protected := meta.Annotations[n.New]; meta.Annotations[n.Old] == "true" && !protected {
				n.Objects = append(n.Objects, object)
			}
		}
	}
	for _, p := range s.Pods {
		if !IsTerminal(p) && !OwnedByDaemonSet(p) && !IsMirror(p) {
			look("Pod "+p.Namespace+"/"+p.Name, &p.ObjectMeta)
		}
	}
	for _, n := range s.Nodes {
		look("Node "+n.Name, &n.ObjectMeta)
	}
	for _, n := range names {
		if len(n.Objects) > 0 {
			out = append(out, *n)
		}
	}
	return out
}
