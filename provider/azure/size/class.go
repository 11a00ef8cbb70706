package size

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
)

// SettingsOf returns the settings of a class; s has the installation's settings.
func SettingsOf(class *azurev1beta1.AKSNodeClass, s Settings) Settings {
	spec := &class.Spec
	s.ImageFamily, s.FIPS, s.OSDiskGB, s.MaxPods = spec.ImageFamily, spec.FIPSMode == azurev1beta1.FIPSEnabled, int64(ptr.Deref(spec.OSDiskSizeGB, 0)), int(ptr.Deref(spec.MaxPods, 0))
	s.EphemeralOSDisk, s.DataDisks = spec.OSDiskType == azurev1beta1.OSDiskEphemeral, len(spec.DataDisks)
	s.PremiumDisks = strings.HasPrefix(spec.OSDiskStorageAccountType, "Premium") ||
		slices.ContainsFunc(spec.DataDisks, func(d azurev1beta1.DataDisk) bool { return strings.HasPrefix(d.StorageAccountType, "Premium") })
	if spec.Security != nil {
		trusted := ptr.Deref(spec.Security.TrustedLaunch, azurev1beta1.TrustedLaunch{})
		s.EncryptionAtHost, s.TrustedLaunch = spec.Security.EncryptionAtHost, trusted.VTPM || trusted.SecureBoot
	}
	s.NoGPUDriver = spec.GPU != nil && spec.GPU.Mode == "None"
	s.ArtifactStreaming = spec.ArtifactStreaming != nil && ptr.Deref(spec.ArtifactStreaming.Enabled, false)
	s.LocalDNS = spec.LocalDNS != nil && spec.LocalDNS.Mode == "Required" || ptr.Deref(class.Status.LocalDNSState, "") == "Enabled"
	s.SelfManaged = s.SelfManaged || spec.UserData != "" || spec.ImageFamily == azurev1beta1.FamilyCustom
	if s.SelfManaged {
		s.Kubelet.Reserves = NotAtAll
	}
	if o := spec.Overhead; o != nil {
		quantity := func(q resource.Quantity) string { return q.String() }
		s.Kubelet.KubeReserved, s.Kubelet.SystemReserved = texts(o.KubeReserved, quantity), texts(o.SystemReserved, quantity)
		s.Kubelet.EvictionHard = texts(o.EvictionHard, func(t v1.EvictionThreshold) string { return string(t) })
	}
	for _, image := range class.Status.Images {
		labels := map[string][]string{}
		for _, r := range image.Requirements {
			if r.Operator == corev1.NodeSelectorOpIn {
				labels[r.Key] = r.Values
			}
		}
		s.Images = append(s.Images, labels)
	}
	return s
}

func texts[V any](values map[string]V, text func(V) string) map[string]string {
	out := map[string]string{}
	for key, v := range values {
		out[key] = text(v)
	}
	return out
}
