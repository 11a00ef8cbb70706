package provisioning

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// mostDelay is the longest that a pod can have machines wait for another autoscaler.
const mostDelay = time.Hour

// EKS gives pods that a Fargate profile selects a scheduler of its own, which makes a machine for each and binds to no other. What it
// says of pods that it refuses is what kube-scheduler says of those that find no room.
const (
	fargateScheduler    = "fargate-scheduler"
	fargateProfileLabel = "eks.amazonaws.com/fargate-profile"
)

// scaleUpsOf are what is believed of another autoscaler now, by pod. Of several for a pod the one that ends first counts: who has
// failed once is not waited for again.
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

// elsewhere says why no machine is started for the pod yet though one could be: a ProvisioningRequest is about it, or another autoscaler
// does that, or may. What runs on a
// machine that leaves is not of that kind.
func (p *Problem) elsewhere(pod *corev1.Pod, ups map[string]engine.ScaleUp) engine.Reason {
	now := p.Snapshot.Now
	if pod.Spec.NodeName != "" || p.trial != nil {
		return engine.Reason{}
	}
	if pod.Spec.SchedulerName == fargateScheduler {
		return engine.Reason{Code: engine.LeftToFargate, Have: pod.Labels[fargateProfileLabel]}
	}
	if r := p.holds.Of(pod); !r.OK() {
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
