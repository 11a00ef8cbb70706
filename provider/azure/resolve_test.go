package azure_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

func TestWhatAClassLacksIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	full := w.AddSubnet(azuretest.Group, "network", "tiny", "10.9.0.0/29")
	for name, test := range map[string]struct {
		change            func(*azurev1beta1.AKSNodeClass)
		fault             string
		condition, reason string
		status            metav1.ConditionStatus
		says              string
	}{
		"subnet-gone":     {func(c *azurev1beta1.AKSNodeClass) { c.Spec.VNETSubnetID = w.subnet + "x" }, "", "SubnetsReady", "SubnetNotFound", "False", "does not exist"},
		"subnet-full":     {func(c *azurev1beta1.AKSNodeClass) { c.Spec.VNETSubnetID = full }, "", "SubnetsReady", "SubnetFull", "False", "all 3 addresses"},
		"subnet-denied":   {nil, "Subnets_Get", "SubnetsReady", "SubnetUnknownError", "False", `grant role "Network Contributor" on the subnet`},
		"no-user-data":    {func(c *azurev1beta1.AKSNodeClass) { c.Spec.UserData = "" }, "", "ValidationSucceeded", "ValidationFailed", "False", "spec.userData is empty"},
		"variable":        {func(c *azurev1beta1.AKSNodeClass) { c.Spec.UserData = "{{.Nonsense}}" }, "", "ValidationSucceeded", "ValidationFailed", "False", "Nonsense"},
		"no-tokens":       {func(c *azurev1beta1.AKSNodeClass) { c.Spec.UserData = "{{.JoinToken}}" }, "", "ValidationSucceeded", "ValidationFailed", "False", "JOIN_TOKENS=true"},
		"our-tag":         {func(c *azurev1beta1.AKSNodeClass) { c.Spec.Tags = map[string]string{"KARPENTER.sh/nodepool": "x"} }, "", "ValidationSucceeded", "ValidationFailed", "False", "KARPENTER.sh/nodepool is set by the controller"},
		"image-of-aks":    {func(c *azurev1beta1.AKSNodeClass) { c.Spec.ImageFamily, c.Spec.ImageID = "Ubuntu", "" }, "", "ImagesReady", "ImagesNotFound", "False", "must be Custom"},
		"image-gone":      {func(c *azurev1beta1.AKSNodeClass) { c.Spec.ImageID += "x" }, "", "ImagesReady", "ImagesNotFound", "False", "ubuntux"},
		"nothing-missing": {nil, "", "SubnetsReady", "SubnetsReady", "True", ""},
	} {
		if test.fault != "" {
			w.Subscription.Fail(test.fault, azuretest.Fault{Status: 403, Code: "AuthorizationFailed", Message: "no"})
		}
		for i := range 3 { // three addresses are free
			if name == "subnet-full" {
				w.Put(azuretest.Group, "Microsoft.Network/networkInterfaces", name+string(rune('a'+i)), map[string]any{"ipConfigurations": []any{
					map[string]any{"name": "x", "id": name + string(rune('a'+i)), "properties": map[string]any{"subnet": map[string]any{"id": full}}}}})
			}
		}
		c := w.class(name, test.change)
		problem := w.resolve(c)
		is := v1.GetCondition(c, test.condition)
		if is == nil || is.Status != test.status || is.Reason != test.reason && test.status != "True" || !strings.Contains(is.Message, test.says) || (problem == "") != (test.status == "True") {
			t.Errorf("%s: %q, %+v", name, problem, is)
		}
		if test.status != "True" {
			_, err := w.launch(w.claim(name, nil, nil), c)
			if _, notReady := err.(*provider.ClassNotReadyError); !notReady {
				t.Errorf("%s: launch: %v", name, err)
			}
		}
		w.Heal()
		w.clock.Step(time.Minute)
	}
	if len(w.Calls(putVM))+len(w.Calls(putNIC)) != 0 {
		t.Errorf("machines were asked for")
	}
}

// A ready class stays ready while Azure is busy. A class that was never ready reports that the state is unknown.
func TestTroubleOfAzureLeavesClassesAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.Subscription.Fail("Subnets_Get", azuretest.Fault{Status: 503, Code: "ServiceUnavailable"})
	w.clock.Step(time.Hour)
	if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, azurev1beta1.ConditionSubnetsReady) {
		t.Errorf("it was ready: %q", problem)
	}
	other := w.class("other", nil)
	problem := w.resolve(other)
	if is := v1.GetCondition(other, azurev1beta1.ConditionSubnetsReady); is.Status != metav1.ConditionUnknown || !strings.Contains(problem, "ServiceUnavailable") {
		t.Errorf("it was not: %q, %+v", problem, is)
	}
}

// the version of the API server
func TestTheVersionOfAClassNeverFalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	for _, test := range []struct{ server, want string }{{"v1.35.1-rc.0+abc", "1.35.1"}, {"v1.34.9", "1.35.1"}, {"nonsense", "1.35.1"}} {
		w.config.Version = version(test.server)
		w.restart()
		w.resolve(c)
		if *c.Status.KubernetesVersion != test.want {
			t.Errorf("%s: %s", test.server, *c.Status.KubernetesVersion)
		}
	}
}

func TestAllThatIsWrongWithTheSettingsIsSaid(t *testing.T) {
	t.Parallel()
	config := azure.Config{
		Mode: "bootstrappingclient", SubnetID: "x", ClusterEndpoint: "nowhere", MemoryOverhead: new(1.5), AdminUsername: "1", NetworkPlugin: "kubenet", NetworkPluginMode: "bridge",
		NodeIdentities: []string{"me"}, DiskEncryptionSetID: "y", UseSIG: true, AdditionalTags: map[string]string{"a/b": "", "A": "1", "a": "2", "long": strings.Repeat("x", 257)},
	}
	err := config.Check()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, part := range []string{"CLUSTER_NAME is not set", "AZURE_NODE_RESOURCE_GROUP is not set", `VNET_SUBNET_ID is "x"`, `PROVISION_MODE is "bootstrappingclient"`, "CLUSTER_ENDPOINT", "VM_MEMORY_OVERHEAD_PERCENT is 1.5",
		"LINUX_ADMIN_USERNAME", `NETWORK_PLUGIN is "kubenet"`, `NETWORK_PLUGIN_MODE is "bridge"`, `NODE_IDENTITIES holds "me"`, "NODE_OSDISK_DISKENCRYPTIONSET_ID", "SIG_SUBSCRIPTION_ID", `key "a/b"`, `"A" and "a"`, "257 characters"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not said in:\n%v", part, err)
		}
	}
}
