package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LastingOwner returns the name of the pod's owner beyond one Job or one roll-out: for the Job of a CronJob, whose name also contains the minute, the
// CronJob; for a Deployment's ReplicaSet, whose name also contains the hash of the template, the Deployment. It returns "" if the pod has no
// controller.
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
