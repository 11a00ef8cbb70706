package explain

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
)

// claimNotes describes the ResourceClaims that plans expect and that do not exist yet. For a waiting pod these are its missing claims. For a
// running pod these are the claims of a pod in its place, if they differ from the claims that the running pod has.
func claimNotes(s *engine.Snapshot, pod *corev1.Pod) (notes []string) {
	if s.Selectors == nil || len(pod.Spec.ResourceClaims) == 0 || kube.IsTerminal(pod) {
		return nil
	}
	for _, t := range dra.TemplatesOf(pod, dra.Claims(s.ResourceClaims, s.ResourceClaimTemplates)) {
		if pod.Spec.NodeName == "" && t.Has != "" {
			continue // the pod waits with this claim
		}
		text := "its resource claim " + t.Ref
		if pod.Spec.NodeName != "" {
			text = "the resource claim " + t.Ref + " of a pod in its place"
		}
		text += " is to be made from ResourceClaimTemplate " + t.Template
		switch {
		case !t.Exists:
			text += ", which does not exist"
		case t.Has == t.Asks:
			continue
		default:
			text += ", which asks for " + t.Asks
		}
		if t.Has != "" {
			text += "; its own asks for " + t.Has
		}
		notes = append(notes, text)
	}
	return notes
}
