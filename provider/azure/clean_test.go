package azure_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

// registered launches a claim and marks it as registered, like the controllers.
func (w *world) registered(name string, c *azurev1beta1.AKSNodeClass, requirements ...v1.Requirement) *v1.NodeClaim {
	w.Helper()
	claim := w.claim(name, requirements, nil)
	m, err := w.launch(claim, c)
	w.must(err)
	w.must(w.client.Get(w.Context(), clientKey(name), claim))
	claim.Annotations, claim.Labels = m.Annotations, m.Labels
	w.must(w.client.Update(w.Context(), claim))
	claim.Status.ProviderID, claim.Status.ImageID, claim.Status.NodeName = string(m.ID), m.ImageID, name
	v1.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", w.clock.Now())
	w.must(w.client.Status().Update(w.Context(), claim))
	return claim
}

func (w *world) tags(kind, name string) map[string]string {
	return w.Tags("/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/" + kind + "/" + name)
}

func TestNetworkInterfacesThatNobodyHasAreTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.registered("runs", c)
	w.claim("waits", nil, nil) // its network interface may be new
	put := func(name, tag, value string) {
		id := w.Put(azuretest.Group, "Microsoft.Network/networkInterfaces", name, map[string]any{})
		w.must(w.config.Cloud.TagNIC(t.Context(), azuretest.Group, name, map[string]*string{tag: &value}))
		_ = id
	}
	put("waits", "karpenter.azure.com_cluster", clusterName)
	put("left", "Karpenter.Azure.com_cluster", clusterName)
	put("others", "karpenter.azure.com_cluster", "another")
	put("strange", "owner", "me")
	nics := func() string { return strings.Join(w.Names("Microsoft.Network/networkInterfaces"), " ") }
	w.must(w.provider.Clean(t.Context()))
	w.clock.Step(4 * time.Minute)
	w.must(w.provider.Clean(t.Context()))
	if got := nics(); got != "left others runs strange waits" {
		t.Errorf("after four minutes: %s", got)
	}
	w.clock.Step(2 * time.Minute)
	w.must(w.provider.Clean(t.Context()))
	if got := nics(); got != "others runs strange waits" {
		t.Errorf("after six minutes: %s", got)
	}
}

// The network interface of a refused machine belongs to its claim, which may use it for another machine. After the claim is deleted, the
// interface is deleted within minutes, by any process: Azure itself reserves it for three minutes.
func TestTheInterfaceOfAMachineThatWasRefusedGoesAfterItsClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	nics := func() string { return strings.Join(w.Names("Microsoft.Network/networkInterfaces"), " ") }
	w.Subscription.Fail(putVM, azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed", Message: "no"})
	claim := w.claim("a", nil, nil)
	for range 2 { // by a process without memory, too
		if _, err := w.launch(claim, c); err == nil {
			t.Fatal("it was not refused")
		}
		w.restart()
		for range 20 {
			w.must(w.provider.Clean(t.Context()))
			w.clock.Step(time.Minute)
		}
		if nics() != "a" {
			t.Errorf("while the claim is there: %q", nics())
		}
	}
	w.Heal()
	_, err := w.launch(claim, c)
	w.must(err)
	if len(w.Calls("NetworkInterfaces_Delete")) != 0 || len(w.names()) != 1 {
		t.Errorf("machines %v", w.names())
	}

	w.Limit(azuretest.Offering{}, 0, "SkuNotAvailable") // Azure refuses immediately
	claim = w.claim("b", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_E4s_v5")}, nil)
	if _, err := w.launch(claim, c); err == nil || nics() != "a b" {
		t.Fatalf("%v, and interfaces %q", err, nics())
	}
	w.must(w.client.Delete(t.Context(), claim))
	w.must(w.provider.Clean(t.Context()))
	w.restart()
	began := w.clock.Now()
	for nics() != "a" && w.clock.Since(began) < time.Hour {
		w.must(w.provider.Clean(t.Context()))
		w.clock.Step(30 * time.Second)
	}
	if after := w.clock.Since(began); after > 6*time.Minute {
		t.Errorf("it was there for %v", after)
	}
}

func TestClustersThatShareAGroupLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.registered("a", c)
	first := w.provider
	w.config.ClusterName = "another"
	w.restart()
	w.registered("b", c)
	for name, p := range map[string]*azure.Provider{"a": first, "b": w.provider} {
		machines, err := p.Machines(t.Context())
		w.must(err)
		if len(machines) != 1 || machines[0].Claim != name {
			t.Errorf("the cluster of %s has %+v", name, machines)
		}
		other := machines[0].ID[:len(machines[0].ID)-1] + engine.MachineID(map[string]string{"a": "b", "b": "a"}[name])
		if err := p.Terminate(t.Context(), other); err == nil || !strings.Contains(err.Error(), "left alone") {
			t.Errorf("the cluster of %s stops the other's: %v", name, err)
		}
	}
	if len(w.names()) != 2 {
		t.Errorf("machines %v", w.names())
	}
}

// Tags and identities of running machines are updated, and tags of others stay.
func TestTagsAndIdentitiesAreChangedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) { c.Spec.Tags = map[string]string{"team": "a", "old": "x"} })
	w.registered("a", c)
	foreign := map[string]*string{"policy": new("applied")}
	for key, value := range w.tags("Microsoft.Compute/virtualMachines", "a") {
		foreign[key] = &value
	}
	w.must(w.config.Cloud.UpdateVM(t.Context(), azuretest.Group, "a", armcompute.VirtualMachineUpdate{Tags: foreign}))
	w.must(w.provider.Clean(t.Context()))
	if n := len(w.Calls("VirtualMachines_Update")); n != 1 {
		t.Errorf("%d updates of what is up to date", n)
	}
	identity := "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.ManagedIdentity/userAssignedIdentities/own"
	w.must(w.client.Get(t.Context(), clientKey("general"), c)) // it has the finalizer now
	c.Spec.Tags, c.Spec.ManagedIdentities = map[string]string{"Team": "b"}, []string{identity}
	w.must(w.client.Update(t.Context(), c))
	for range 2 {
		w.must(w.provider.Clean(t.Context()))
		w.clock.Step(time.Minute)
	}
	for _, kind := range []string{"Microsoft.Compute/virtualMachines", "Microsoft.Network/networkInterfaces"} {
		tags := w.tags(kind, "a")
		if tags["Team"] != "b" || (tags["policy"] == "applied") != (kind == "Microsoft.Compute/virtualMachines") || tags["team"] != "" || tags["old"] != "" || tags["karpenter.azure.com_cluster"] != clusterName {
			t.Errorf("%s: %v", kind, tags)
		}
	}
	if n := len(w.Calls("VirtualMachines_Update")); n != 2 {
		t.Errorf("%d updates, want one beside the policy's", n)
	}
	vm, err := w.config.Cloud.VM(t.Context(), azuretest.Group, "a")
	w.must(err)
	if len(vm.Identity.UserAssignedIdentities) != 1 {
		t.Errorf("identities %v", vm.Identity)
	}
	traits, err := w.provider.Traits(t.Context(), seen(c))
	w.must(err)
	claim := &v1.NodeClaim{}
	w.must(w.client.Get(t.Context(), clientKey("a"), claim))
	if traits[0].Accepts[0] != claim.Annotations[azurev1beta1.HashAnnotationKey] {
		t.Error("it has drifted")
	}
}

func TestAMachineThatIsLetGoBelongsToNoCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.registered("a", c)
	tags := map[string]*string{"policy": new("applied")}
	for key, value := range w.tags("Microsoft.Compute/virtualMachines", "a") {
		tags[key] = &value
	}
	w.must(w.config.Cloud.UpdateVM(t.Context(), azuretest.Group, "a", armcompute.VirtualMachineUpdate{Tags: tags}))
	w.must(w.provider.Release(t.Context(), engine.MachineID(claim.Status.ProviderID)))
	if got := w.tags("Microsoft.Compute/virtualMachines", "a"); len(got) != 1 || got["policy"] != "applied" {
		t.Errorf("released: %v", got)
	}
	machines, err := w.provider.Machines(t.Context())
	w.must(err)
	if len(machines) != 0 {
		t.Errorf("it still belongs to the cluster: %+v", machines)
	}
}

func TestMachinesOfAnotherImageOrFingerprintHaveDrifted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.registered("a", c)
	accepts := func() map[string]bool {
		traits, err := w.provider.Traits(t.Context(), seen(c))
		w.must(err)
		out := map[string]bool{}
		for _, trait := range traits {
			value := claim.Annotations[trait.Key]
			if trait.Key == engine.ImageTrait {
				value = claim.Status.ImageID
			}
			for _, accepted := range trait.Accepts {
				out[trait.Reason] = out[trait.Reason] || accepted == value
			}
		}
		return out
	}
	if got := accepts(); len(got) != 2 || !got[azure.NodeClassDrift] || !got[azure.ImageDrift] {
		t.Errorf("at first %v", got)
	}
	w.AddImage(azuretest.Image{ID: w.image, Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now()}, {Name: "1.1.0", Published: w.clock.Now()}}})
	w.clock.Step(10 * time.Minute)
	if problem := w.resolve(c); problem != "" || c.Status.Images[0].ID != w.image+"/versions/1.1.0" {
		t.Errorf("%q, images %v", problem, c.Status.Images)
	}
	if got := accepts(); !got[azure.NodeClassDrift] || got[azure.ImageDrift] {
		t.Errorf("with a newer image %v", got)
	}
	c.Spec.OSDiskSizeGB = new(int32(64))
	if got := accepts(); got[azure.NodeClassDrift] {
		t.Errorf("with another disk %v", got)
	}
	// A fingerprint of another version is ignored until it is replaced.
	claim.Annotations[azurev1beta1.HashAnnotationKey], claim.Annotations[azurev1beta1.HashVersionAnnotationKey] = "123", "v3"
	w.must(w.client.Update(t.Context(), claim))
	if got := accepts(); !got[azure.NodeClassDrift] {
		t.Errorf("of another version %v", got)
	}
	c.Annotations = map[string]string{azurev1beta1.HashVersionAnnotationKey: "v3"}
	w.must(w.client.Update(t.Context(), c))
	w.resolve(c)
	w.must(w.client.Get(t.Context(), clientKey("a"), claim))
	if claim.Annotations[azurev1beta1.HashAnnotationKey] != c.Hash() || claim.Annotations[azurev1beta1.HashVersionAnnotationKey] != azurev1beta1.HashVersion {
		t.Errorf("stamped %v", claim.Annotations)
	}
}

func node(claim *v1.NodeClaim, condition, reason string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Name}, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(condition), Status: corev1.ConditionTrue, Reason: reason}}
	return n
}
