package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LastingOwner names what a pod belongs to for longer than one Job or one roll-out: a CronJob's Jobs are called after it and the
// minute, a Deployment's ReplicaSets after it and the hash of their template. "" if nothing makes such pods.
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
