package azure_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

const kubeletIdentity = "00000000-0000-0000-0000-0000000000aa"

// joined returns a claim of Karpenter's whose node's kubelet has a version and an identity.
func (w *world) joined(name, version, identity string) *v1.NodeClaim {
	w.Helper()
	claim := w.claim(name, nil, nil)
	claim.Status.ProviderID = "azure:///subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/virtualMachines/aks-" + name
	claim.Status.NodeName = "aks-" + name
	v1.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", w.clock.Now())
	w.must(w.client.Status().Update(w.Context(), claim))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "aks-" + name}}
	if identity != "" {
		node.Labels = map[string]string{azurev1beta1.AKSKubeletIdentityLabelKey: identity}
	}
	node.Status.NodeInfo.KubeletVersion = version
	w.must(w.client.Create(w.Context(), node))
	return claim
}

// driftOf returns the reason of a claim's drift, "" for none, after Clean.
func (w *world) driftOf(c *azurev1beta1.AKSNodeClass, name string) string {
	w.Helper()
	w.must(w.provider.Clean(w.Context()))
	traits, err := w.provider.Traits(w.Context(), seen(c))
	w.must(err)
	claim := &v1.NodeClaim{}
	w.must(w.client.Get(w.Context(), clientKey(name), claim))
	reason, _ := lifecycle.DriftOf(claim, &v1.NodePool{}, &engine.Class{Traits: traits}, w.clock.Now())
	return reason
}

func TestMachinesOfAKSDriftWithTheirKubelets(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	w.resolve(c) // with version 1.34.2
	for name, test := range map[string]struct{ version, identity, want string }{
		"same":         {"v1.34.2", kubeletIdentity, ""},
		"without":      {"v1.34.2", "", ""},
		"patch":        {"v1.34.1", kubeletIdentity, azure.VersionDrift},
		"another":      {"v1.34.2", "00000000-0000-0000-0000-0000000000bb", azure.KubeletIdentityDrift},
		"both":         {"v1.33.0", "00000000-0000-0000-0000-0000000000bb", azure.VersionDrift},
		"unreadable":   {"weird", "00000000-0000-0000-0000-0000000000bb", ""},
		"not-yet-told": {"", "", ""},
	} {
		w.joined(name, test.version, test.identity)
		if got := w.driftOf(c, name); got != test.want {
			t.Errorf("%s: drifted for %q, want %q", name, got, test.want)
		}
	}
	// An unknown property of the class is no reason.
	v1.SetCondition(c, azurev1beta1.ConditionKubernetesVersionReady, metav1.ConditionUnknown, "a", "", w.clock.Now())
	if got := w.driftOf(c, "patch"); got != "" {
		t.Errorf("drifted for %q, and the version of the class is not known", got)
	}
}

func TestWhatAMachineOfAKSWasToldCountsNotWhatItsNodeSays(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	w.resolve(c)
	claim := w.claim("a", nil, nil)
	m, err := w.launch(claim, c)
	w.must(err)
	if m.Annotations[v1.KubeletVersionAnnotationKey] != "1.34.2" || m.Annotations[v1.KubeletIdentityAnnotationKey] != kubeletIdentity {
		t.Errorf("the claim is told %v", m.Annotations)
	}
	w.must(w.client.Get(t.Context(), clientKey("a"), claim))
	claim.Annotations = m.Annotations
	w.must(w.client.Update(w.Context(), claim))
	claim.Status.NodeName = "aks-a"
	v1.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", w.clock.Now())
	w.must(w.client.Status().Update(w.Context(), claim))
	w.must(w.client.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "aks-a"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.34.0"}}}))
	if got := w.driftOf(c, "a"); got != "" {
		t.Errorf("drifted for %q: its successor would be the same", got)
	}
	c.Status.KubernetesVersion = new("1.34.3") // the control plane was upgraded
	if got := w.driftOf(c, "a"); got != azure.VersionDrift {
		t.Errorf("drifted for %q, want %s", got, azure.VersionDrift)
	}
}

func TestKubeletsOfOwnImagesAreNotCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.joined("a", "v1.30.0", "")
	if got := w.driftOf(c, "a"); got != "" {
		t.Errorf("drifted for %q", got)
	}
	traits, err := w.provider.Traits(t.Context(), seen(c))
	w.must(err)
	if slices.ContainsFunc(traits, func(trait engine.Trait) bool { return trait.Reason == azure.VersionDrift }) {
		t.Errorf("traits %+v", traits)
	}
	claim := &v1.NodeClaim{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "a"}, claim))
	if len(claim.Annotations) > 0 {
		t.Errorf("annotations %v", claim.Annotations)
	}
}
