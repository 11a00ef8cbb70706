package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LastingOwner names the pod's owner beyond one Job or one roll-out: the name of a CronJob's Job is the CronJob's name and the minute, that of a
// Deployment's ReplicaSet is the Deployment's name and the hash of the template. "" if the pod has no controller.
func LastingOwner(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	kind, name := owner.Kind, owner.Name
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		last := name[i+1:]
		switch {
		case kind == "Job" && len(last) >= 8 && strings.Trim(last, "0123456789") == "":
			kind, name = "CronJob", name[:i]
		case kind == "ReplicaSet" && last == pod.Labels["pod-template-hash"]:
			kind, name = "Deployment", name[:i]
		}
	}
	return kind + " " + pod.Namespace + "/" + name
}
