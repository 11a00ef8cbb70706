package dra

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// A TemplateUse is one claim of a pod by a template.
type TemplateUse struct {
	Ref, Template string
	Exists        bool   // whether the template exists
	Asks          string // the requests of the template's future claims, in words
	Has           string // the requests of the pod's present claim, empty for none
}

// TemplatesOf lists the pod's claims by template, without the claims that the pod does not need.
func TemplatesOf(pod *corev1.Pod, index *ClaimIndex) (out []TemplateUse) {
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		name, known, _ := claimName(pod, ref)
		if ref.ResourceClaimTemplateName == nil || known && name == "" {
			continue
		}
		u := TemplateUse{Ref: ref.Name, Template: *ref.ResourceClaimTemplateName}
		if draft := index.drafts[[2]string{pod.Namespace, u.Template}]; draft != nil {
			u.Exists, u.Asks = true, asksFor(&draft.Spec)
		}
		if c := index.claims[[2]string{pod.Namespace, name}]; c != nil {
			u.Has = asksFor(&c.Spec)
		}
		out = append(out, u)
	}
	return out
}

// asksFor describes the devices that a claim requests.
func asksFor(spec *resourcev1.ResourceClaimSpec) string {
	var all []string
	for i := range spec.Devices.Requests {
		var choices []string
		for _, a := range asksOf(&spec.Devices.Requests[i]) {
			text := "1 device"
			switch {
			case a.AllocationMode == resourcev1.DeviceAllocationModeAll:
				text = "all devices"
			case a.Count > 1:
				text = fmt.Sprintf("%d devices", a.Count)
			}
			text += " of DeviceClass " + a.DeviceClassName
			for _, s := range a.Selectors {
				if s.CEL != nil {
					text += " with " + s.CEL.Expression
				}
			}
			choices = append(choices, text)
		}
		all = append(all, strings.Join(choices, " or "))
	}
	return strings.Join(all, ", and ")
}
