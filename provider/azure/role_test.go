package azure_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/examine"
	"tenon.sh/provider/azure/machine"
)

// roles returns the actions of the roles in deploy/azure, by scope.
func roles(t *testing.T) map[bool][]string {
	t.Helper()
	out := map[bool][]string{} // true for the subscription
	for file, subscription := range map[string]bool{"role.json": false, "role-subscription.json": true} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "azure", file))
		if err != nil {
			t.Fatal(err)
		}
		var role struct{ Actions, NotActions []string }
		if err := json.Unmarshal(text, &role); err != nil || len(role.NotActions) > 0 {
			t.Fatalf("%s: %v, %q", file, err, role.NotActions)
		}
		out[subscription] = role.Actions
	}
	return out
}

// ofAzureItself returns the calls that need no right, or only an implied one: for the state of a call, and for prices.
func ofAzureItself() []string {
	return []string{"Operations_Get", "OperationResults_Get", "RetailPrices"}
}

// Least privilege: the roles allow exactly the calls of the provider and of doctor, in their scopes.
func TestTheRolesAllowWhatIsCalledAndNothingElse(t *testing.T) {
	t.Parallel()
	needed := map[bool]map[string]string{true: {}, false: {}} // the call, by action
	for call := range called(t) {
		right, known := cloud.RightOf(call)
		if !known {
			t.Errorf("%s: nothing is known of the right that it takes", call)
			continue
		}
		needed[right.Place == cloud.InSubscription][right.Action] = call
		for _, r := range cloud.Implied()[call] {
			needed[r.Place == cloud.InSubscription][r.Action] = call + ": " + r.Because
		}
	}
	have := roles(t)
	for subscription, actions := range needed {
		for _, action := range slices.Sorted(maps.Keys(actions)) {
			if !slices.Contains(have[subscription], action) {
				t.Errorf("%s is needed (on the subscription: %v) for %s, and no role in deploy/azure has it", action, subscription, actions[action])
			}
		}
		for _, action := range have[subscription] {
			if actions[action] == "" {
				t.Errorf("a role in deploy/azure (on the subscription: %v) has %s, which nothing needs", subscription, action)
			}
		}
	}
}

// called returns the operations of all calls of the provider and of doctor.
func called(t *testing.T) map[string]bool {
	out := map[string]bool{}
	for _, w := range []*world{aLife(t), ofAKS(t)} {
		for _, c := range w.Calls("") {
			if !slices.Contains(ofAzureItself(), c.Operation) {
				out[c.Operation] = true
			}
		}
	}
	return out
}

// aLife returns a subscription in which classes of all kinds were resolved, and a machine was created, changed, released and deleted.
func aLife(t *testing.T) *world {
	w := newWorld(t, func(c *azure.Config) {
		c.DiskEncryptionSetID = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute/diskEncryptionSets/own"
		c.NodeIdentities = []string{"/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.ManagedIdentity/userAssignedIdentities/own"}
	})
	w.Put(azuretest.Group, "Microsoft.Compute/diskEncryptionSets", "own", map[string]any{})
	group := w.Put(azuretest.Group, "Microsoft.Network/networkSecurityGroups", "own", map[string]any{})
	pools := w.AddBalancer(azuretest.Group, "own", "workers")
	versions := []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now().Add(-time.Hour)}}
	for name, id := range map[string]string{
		"community": "/CommunityGalleries/public/images/ubuntu", "managed": "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/images/own", "market": "canonical:ubuntu:server",
	} {
		w.AddImage(azuretest.Image{ID: id, Versions: versions})
		if name == "market" {
			id += ":latest"
		}
		w.resolved(name, func(c *azurev1beta1.AKSNodeClass) { c.Spec.ImageID = id })
	}
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) {
		c.Spec.NetworkSecurityGroupID, c.Spec.LoadBalancerBackendPoolIDs = group, pools
	})
	claim := w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5")}, nil)
	m, err := w.launch(claim, c)
	w.must(err)
	examine.New(examine.Config{Cloud: w.config.Cloud, Clock: w.clock, ResourceGroup: azuretest.Group, SubnetID: w.subnet, SelfManaged: true,
		DiskEncryptionSetID: w.config.DiskEncryptionSetID, NodeIdentities: w.config.NodeIdentities}).Examine(t.Context(), []provider.Class{seen(c)})
	_, err = w.provider.Machine(t.Context(), m.ID)
	w.must(err)
	other, err := w.launch(w.claim("other", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5")}, nil), c)
	w.must(err)
	w.clock.Step(time.Hour)                           // no list hides it any more
	w.must(w.provider.Release(t.Context(), other.ID)) // it changes its tags
	w.must(w.provider.Clean(t.Context()))
	w.must(w.provider.Terminate(t.Context(), m.ID))
	w.Limit(azuretest.Offering{}, 0, "SkuNotAvailable") // the remainders of a launch are deleted
	_, err = w.launch(w.claim("b", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5")}, nil), c)
	if err == nil {
		t.Error("a machine was started of what is sold out")
	}
	for range 3 {
		w.clock.Step(10 * time.Minute)
		w.must(w.provider.Clean(t.Context()))
	}
	return w
}

// ofAKS returns a subscription in which a machine of AKS was started and cleaned up, and a machine that AKS itself had made was deleted.
func ofAKS(t *testing.T) *world {
	w, c := newAKS(t)
	w.resolve(c)
	w.registered("a", c)
	w.must(w.provider.Clean(t.Context()))
	resource, vm := w.AddAKSMachine(azuretest.AKSMachine{Cluster: clusterName, ClusterGroup: "clusters", Pool: "pool", Name: "b", Size: "Standard_D4s_v5",
		Tags: map[string]string{"karpenter.azure.com_cluster": clusterName, "karpenter.azure.com_aksmachine_nodeclaim": "b"}})
	b := w.claim("b", nil, nil)
	b.Annotations = map[string]string{azurev1beta1.MachineResourceAnnotationKey: resource}
	w.must(w.client.Update(t.Context(), b))
	w.must(w.provider.Terminate(t.Context(), machine.ID(w.ID, azuretest.Group, vm)))
	return w
}

// unused returns the calls of package cloud that neither the provider nor doctor makes.
func unused() []string {
	return []string{"Disks_ListByResourceGroup", "Resources"}
}

// A call of package cloud that no test here makes would escape the comparison.
func TestEveryCallOfTheConnectionIsMadeOrKnownToBeUnused(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("cloud/*.go")
	if err != nil {
		t.Fatal(err)
	}
	literal, all := regexp.MustCompile(`"([A-Z][a-z]\w*_[A-Z]\w+)"`), map[string]bool{"Resources": true}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == filepath.Join("cloud", "right.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = true
		}
	}
	made := called(t)
	for _, call := range slices.Sorted(maps.Keys(all)) {
		if made[call] == slices.Contains(unused(), call) {
			t.Errorf("%s: made is %v, and listed as unused is %v", call, made[call], !made[call])
		}
	}
	for _, call := range slices.Sorted(maps.Keys(made)) {
		if !all[call] {
			t.Errorf("%s is made by something else than package cloud", call)
		}
	}
}
