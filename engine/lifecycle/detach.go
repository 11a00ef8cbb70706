package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// detachCheck is the time between two looks at volumes that are still attached.
const detachCheck = 5 * time.Second

// detach waits until the volumes of evicted pods are detached, because otherwise the end of the machine keeps them from their next node for
// minutes. It reports whether to continue.
func (term *termination) detach() bool {
	if len(term.nodes) == 0 {
		return true
	}
	names := blockingAttachments(term.Life)
	if len(names) == 0 {
		term.condition(v1.ConditionVolumesDetached, metav1.ConditionTrue, "", "")
		return true
	}
	if !term.deadline.IsZero() && !term.Now.Before(term.deadline) {
		term.condition(v1.ConditionVolumesDetached, metav1.ConditionFalse, "TerminationGracePeriodElapsed", "volumes are still attached: "+engine.AtMost(names, 5))
		return true
	}
	term.condition(v1.ConditionVolumesDetached, metav1.ConditionUnknown, "AwaitingVolumeDetachment", "volumes are still attached: "+engine.AtMost(names, 5))
	for _, n := range term.nodes {
		term.tell(n, false, eventAwaitingDetachment, fmt.Sprintf("waiting for volumes to be detached: %s", engine.AtMost(names, 5)))
	}
	term.step.by(detachCheck)
	if !term.deadline.IsZero() {
		term.step.by(term.deadline.Sub(term.Now))
	}
	return false
}

// blockingAttachments lists, sorted, the attachments that will end without further action. Volumes of pods that stay to the end (for example of
// DaemonSets that tolerate everything) stay attached.
func blockingAttachments(l Life) []string {
	stay := map[string]bool{}
	for _, key := range KeptVolumeClaims(l.Pods, l.Now) {
		for _, pvc := range l.VolumeClaims {
			if pvc.Namespace == key.Namespace && pvc.Name == key.Name {
				stay[pvc.Spec.VolumeName] = true
			}
		}
	}
	var names []string
	for _, a := range l.Attachments {
		if pv := a.Spec.Source.PersistentVolumeName; pv != nil && !stay[*pv] {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return names
}

// KeptVolumeClaims lists the PersistentVolumeClaims of the pods for which no drain waits.
func KeptVolumeClaims(pods []*corev1.Pod, now time.Time) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, p := range pods {
		if kube.IsDrainable(p, now) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				keys = append(keys, types.NamespacedName{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
			case v.Ephemeral != nil:
				keys = append(keys, types.NamespacedName{Namespace: p.Namespace, Name: p.Name + "-" + v.Name})
			}
		}
	}
	return keys
}
