package provisioning

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// mostDelay bounds the time for which a pod can delay its launch for another autoscaler.
const mostDelay = time.Hour

// EKS gives pods that a Fargate profile selects their own scheduler, which makes a machine for each of these pods and binds to no other. A pod that
// it refuses has the same condition as a pod for which kube-scheduler finds no room.
const (
	fargateScheduler    = "fargate-scheduler"
	fargateProfileLabel = "eks.amazonaws.com/fargate-profile"
)

// scaleUpsOf returns the scale-ups that other autoscalers seem to make now, by pod. If a pod has several, the result has the one that ends first,
// because an autoscaler that has failed once is not waited for again.
func scaleUpsOf(s *engine.Snapshot) map[string]engine.ScaleUp {
	if len(s.ScaleUps) == 0 {
		return nil
	}
	first := make(map[string]engine.ScaleUp, len(s.ScaleUps))
	for _, u := range s.ScaleUps {
		if other, known := first[u.Pod]; !known || u.Until.Before(other.Until) || u.Until.Equal(other.Until) && u.Group < other.Group {
			first[u.Pod] = u
		}
	}
	return first
}

// elsewhere returns why no machine is started yet for a pod that could have one: a ProvisioningRequest, Fargate or another autoscaler serves
// the pod, or the pod delays its launch. Pods that leave their machine do not wait.
func (rd *Reading) elsewhere(pod *corev1.Pod, ups map[string]engine.ScaleUp) engine.Reason {
	now := rd.Snapshot.Now
	if pod.Spec.NodeName != "" || rd.trial != nil {
		return engine.Reason{}
	}
	if pod.Spec.SchedulerName == fargateScheduler {
		return engine.Reason{Code: engine.LeftToFargate, Have: pod.Labels[fargateProfileLabel]}
	}
	if r := rd.holds.Of(pod); !r.OK() {
		return r
	}
	if u, ok := ups[string(pod.UID)]; ok && now.Before(u.Until) {
		return engine.Reason{Code: engine.ServedElsewhere, Have: u.Group, Need: engine.ClockText(u.Until)}
	}
	text, ok := pod.Annotations[v1.LaunchDelayAnnotationKey]
	if !ok {
		return engine.Reason{}
	}
	delay, err := time.ParseDuration(text)
	if until := pod.CreationTimestamp.Add(min(delay, mostDelay)); err == nil && now.Before(until) {
		return engine.Reason{Code: engine.LaunchDelayed, Key: v1.LaunchDelayAnnotationKey, Need: engine.ClockText(until)}
	}
	return engine.Reason{}
}
