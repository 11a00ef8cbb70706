package inventory

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

// Nodes of one type report a little more or less: a pod that fits into the least fits into all. Nodes of an older image say nothing of new
// nodes.
func TestTheLeastMemoryOfTheNewestImageIsLearned(t *testing.T) {
	t.Parallel()
	kind := &engine.InstanceType{Name: "m5.large"}
	running := func(memory, image string, age time.Duration) *MachineInfo {
		claim := enginetest.LifeClaim(enginetest.LifeRunning)
		claim.CreationTimestamp, claim.Status.ImageID = metav1.NewTime(enginetest.LifeStart.Add(-age)), image
		m := &MachineInfo{Claim: claim, Node: enginetest.LifeNode(enginetest.LifeOpen), Initialized: true, kind: kind,
			Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
		m.observed = m.observeMemory()
		return m
	}
	other := running("1Gi", "new", 0)
	other.Claim.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "other"}
	other.kind = &engine.InstanceType{Name: "m5.large"}
	learned := observedMemory([]*MachineInfo{running("5Gi", "old", 2*time.Hour), running("7Gi", "new", time.Hour), running("6Gi", "new", 0), other})
	if got := learned[kind]; got == nil || got.String() != "6Gi" {
		t.Errorf("learned %v, want 6Gi", got)
	}
	if got := learned[other.kind]; got == nil || got.String() != "1Gi" {
		t.Errorf("of the other class learned %v, want 1Gi", got)
	}
}
