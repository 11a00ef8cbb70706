package examine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/examine"
	"tenon.sh/provider/azure/network"
)

// credential is the credential of the user in the token, or one that fails.
type credential struct{ err error }

func (c credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"appid": "tenon-app", "oid": "tenon-object", "tid": "tenant"}`))
	return azcore.AccessToken{Token: "e30." + claims + ".c2ln", ExpiresOn: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)}, c.err
}

// world is a subscription without faults, and a class that sets all fields.
type world struct {
	*testing.T
	*azuretest.Subscription
	clock      *clocktesting.FakeClock
	credential azcore.TokenCredential
	config     examine.Config
	class      *azurev1beta1.AKSNodeClass
	balancer   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{T: t, clock: clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)), credential: credential{}}
	w.Subscription = azuretest.New(t, w.clock)
	w.config = examine.Config{Clock: w.clock, Cluster: "demo", ResourceGroup: azuretest.Group, SelfManaged: true, SubnetID: w.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/24"),
		DiskEncryptionSetID: w.id("Microsoft.Compute/diskEncryptionSets/own"), NodeIdentities: []string{w.id("Microsoft.ManagedIdentity/userAssignedIdentities/nodes")}}
	w.Put(azuretest.Group, "Microsoft.Compute/diskEncryptionSets", "own", map[string]any{})
	w.Put(azuretest.Group, "Microsoft.Network/networkSecurityGroups", "guard", map[string]any{})
	pool := w.AddBalancer(azuretest.Group, "front", "web")[0]
	w.balancer = w.id("Microsoft.Network/loadBalancers/front")
	w.class = &azurev1beta1.AKSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: azurev1beta1.AKSNodeClassSpec{
		ImageFamily: azurev1beta1.FamilyCustom, NetworkSecurityGroupID: w.id("Microsoft.Network/networkSecurityGroups/guard"), LoadBalancerBackendPoolIDs: []string{pool},
		ImageID: w.AddImage(azuretest.Image{ID: w.id("Microsoft.Compute/galleries/own/images/ubuntu"), Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now()}}}),
	}}
	return w
}

func (w *world) id(of string) string {
	return w.group() + "/providers/" + of
}

func (w *world) group() string {
	return "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) cloud() *cloud.Cloud {
	w.Helper()
	c, err := cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.credential, Options: *w.Options(), Clock: w.clock})
	w.must(err)
	return c
}

// examine examines, and fails the test if that changed anything.
func (w *world) examine() []provider.Finding {
	w.Helper()
	before := len(w.Subscription.Calls(""))
	w.config.Cloud = w.cloud()
	out := examine.New(w.config).Examine(w.Context(), []provider.Class{{Object: w.class}})
	for _, c := range w.Subscription.Calls("")[before:] {
		if c.Method != http.MethodGet {
			w.Errorf("it called %s %s", c.Method, c.Path)
		}
	}
	return out
}

// launch makes a machine with the given number of addresses in the subnet.
func (w *world) launch(name, size string, spot bool, addresses int) {
	w.Helper()
	c := w.cloud()
	nic := network.Interface{Location: azuretest.Location}
	for i := range addresses {
		nic.Properties.IPConfigurations = append(nic.Properties.IPConfigurations, network.IPConfiguration{Name: fmt.Sprint("a", i),
			Properties: network.IPConfigurationProperties{Primary: i == 0, Subnet: network.Reference{ID: w.config.SubnetID}}})
	}
	w.must(c.PutNIC(w.Context(), azuretest.Group, name, nic))
	vm := armcompute.VirtualMachine{Location: new(azuretest.Location), Properties: &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: new(armcompute.VirtualMachineSizeTypes(size))},
		StorageProfile:  &armcompute.StorageProfile{ImageReference: &armcompute.ImageReference{ID: new(w.class.Spec.ImageID + "/versions/1.0.0")}},
		NetworkProfile:  &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: new(w.id("Microsoft.Network/networkInterfaces/" + name))}}},
	}}
	if spot {
		vm.Properties.Priority = new(armcompute.VirtualMachinePriorityTypesSpot)
	}
	o, err := c.BeginVM(w.Context(), azuretest.Group, name, vm)
	w.must(err)
	w.must(o.Wait(w.Context()))
}

func TestNothingIsWrongWhereEverythingIsThere(t *testing.T) {
	w := newWorld(t)
	w.launch("a", "Standard_D2s_v5", false, 1)
	found := w.examine()
	var text []string
	for _, f := range found {
		if f.Level != provider.OK {
			t.Errorf("%+v", f)
		}
		text = append(text, f.Object+": "+f.Says)
	}
	for _, want := range []string{
		"Azure is asked as tenon-app (object tenon-object of tenant tenant)", "location eastus: it sells ", "resource group nodes: 1 machines are in it",
		"and of 1 families in use have room", "disk encryption set own: it is there", "identity nodes: what the controller does there is allowed",
		"AKSNodeClass general: subnet machines: 250 of 251 addresses are free", "network security group guard: it is there", "backend pool web: it is there", "AKSNodeClass general: image: 1 images can be used",
	} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("nothing says %q:\n%s", want, strings.Join(text, "\n"))
		}
	}
}

func TestEachTroubleIsFoundWithWhatToDo(t *testing.T) {
	t.Parallel()
	denied := azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed", Message: "no"}
	for name, c := range map[string]struct {
		disturb            func(w *world)
		level              provider.Level
		object, says, does string
	}{
		"no credentials": {func(w *world) { w.credential = credential{errors.New("no identity\nhere")} }, provider.Problem, "", "there is no token for Azure: Token: no identity here", "AZURE_CLIENT_ID"},
		"a token that Azure does not take": {func(w *world) {
			w.Fail("ResourceSkus_List", azuretest.Fault{Status: 401, Code: "InvalidAuthenticationToken"})
		}, provider.Problem,
			"location eastus", "InvalidAuthenticationToken", "see to the credentials"},
		"sizes are denied": {func(w *world) { w.Fail("ResourceSkus_List", denied) }, provider.Problem, "location eastus", "AuthorizationFailed", `grant Microsoft.Compute/skus/read (role "Reader"`},
		"another location": {func(w *world) { w.SetSizes() }, provider.Problem, "location eastus", "it sells no machines", "LOCATION"},
		"no group":         {func(w *world) { w.config.ResourceGroup = "other" }, provider.Problem, "resource group other", "it does not exist", "AZURE_NODE_RESOURCE_GROUP"},
		"machines are denied": {func(w *world) { w.Fail("VirtualMachines_List", denied) }, provider.Problem, "resource group nodes", "its machines cannot be listed",
			`grant Microsoft.Compute/virtualMachines/read (role "Virtual Machine Contributor", or that of deploy/azure) on /subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes`},
		"interfaces are denied": {func(w *world) { w.Fail("NetworkInterfaces_List", denied) }, provider.Problem, "resource group nodes", "its network interfaces cannot be listed", "Microsoft.Network/networkInterfaces/read"},
		"Azure is in trouble":   {func(w *world) { w.Fail("NetworkInterfaces_List", azuretest.Fault{Status: 503, Code: "Busy"}) }, provider.Warning, "resource group nodes", "Busy", "run this again"},
		"may not write": {func(w *world) {
			w.Grant(w.group(), "*/read", "Microsoft.Network/networkInterfaces/*", "Microsoft.Compute/disks/*")
		}, provider.Problem, "resource group nodes",
			"not allowed: Microsoft.Compute/virtualMachines/delete, Microsoft.Compute/virtualMachines/write", "deploy/azure/role.json on /subscriptions/"},
		"AKS may not be told to delete": {func(w *world) {
			w.config.AKSMachines = []string{w.madeByAKS("demo")}
			w.Grant("/subscriptions/"+w.ID+"/resourceGroups/Clusters/providers/Microsoft.ContainerService/managedClusters/own", "*/read")
		}, provider.Problem, "cluster own of AKS", "not allowed: Microsoft.ContainerService/managedClusters/agentPools/deleteMachines/action",
			"role.json on /subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/Clusters/providers/Microsoft.ContainerService/managedClusters/own"},
		"AKS may not be told to delete in the cluster of the settings": {func(w *world) {
			w.madeByAKS("demo")
			w.config.ClusterGroup = "Clusters"
			w.Grant("/subscriptions/"+w.ID+"/resourceGroups/Clusters/providers/Microsoft.ContainerService/managedClusters/demo", "*/read")
		}, provider.Problem, "cluster demo of AKS", "deleteMachines/action", "managedClusters/demo"},
		"nobody knows where AKS made machines": {func(w *world) { w.madeByAKS("demo") }, provider.Warning, "agent pools", "AKS itself has made 1 machines, and alone may delete them", "ARM_RESOURCE_GROUP"},
		"rights cannot be seen":                {func(w *world) { w.Fail("Permissions_List", denied) }, provider.Warning, "resource group nodes", "what may be done there cannot be looked at", "Microsoft.Authorization/permissions/read"},
		"quotas are denied":                    {func(w *world) { w.Fail("Usage_List", denied) }, provider.Problem, "location eastus", "AuthorizationFailed", "Microsoft.Compute/locations/usages/read"},
		"cores are used up":                    {func(w *world) { w.launch("a", "Standard_D4s_v5", false, 1); w.SetQuota("cores", 4) }, provider.Problem, "quota Total Regional vCPUs", "all 4 cores are in use", "larger quota"},
		"a family is nearly used up": {func(w *world) {
			w.launch("a", "Standard_D16s_v5", false, 1)
			w.launch("b", "Standard_D2s_v5", false, 1)
			w.SetQuota("standardDSv5Family", 20)
			w.SetQuota("standardESv5Family", 0) // the quota is unused
		}, provider.Warning, "quota standardDSv5Family vCPUs", "18 of 20 cores are in use", "larger quota"},
		"no spot":                         {func(w *world) { w.SetQuota("lowPriorityCores", 0) }, provider.Warning, "quota Total Regional Spot vCPUs", "no spot machine", "larger quota"},
		"no disk encryption set":          {func(w *world) { w.config.DiskEncryptionSetID += "-none" }, provider.Problem, "disk encryption set own-none", "does not exist", "NODE_OSDISK_DISKENCRYPTIONSET_ID"},
		"a disk encryption set of others": {func(w *world) { w.Fail("DiskEncryptionSets_Get", denied) }, provider.Problem, "disk encryption set own", "AuthorizationFailed", "Microsoft.Compute/diskEncryptionSets/read"},
		"an identity of others":           {func(w *world) { w.Grant(w.config.NodeIdentities[0], "*/read") }, provider.Problem, "identity nodes", "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action", "userAssignedIdentities/nodes"},
		"no subnet":                       {func(w *world) { w.class.Spec.VNETSubnetID = w.config.SubnetID + "-none" }, provider.Problem, "AKSNodeClass general: subnet machines-none", "does not exist", "spec.vnetSubnetID"},
		"a subnet that may not be read":   {func(w *world) { w.Fail("Subnets_Get", denied) }, provider.Problem, "AKSNodeClass general: subnet machines", "AuthorizationFailed", `grant Microsoft.Network/virtualNetworks/subnets/read (role "Network Contributor"`},
		"a subnet that may not be joined": {func(w *world) { w.Grant(w.config.SubnetID, "Microsoft.Network/*/read") }, provider.Problem, "AKSNodeClass general: subnet machines",
			"not allowed: Microsoft.Network/virtualNetworks/subnets/join/action", "/subnets/machines"},
		"few addresses": {func(w *world) {
			w.config.SubnetID = w.AddSubnet(azuretest.Group, "network", "small", "10.2.0.0/28")
			w.launch("a", "Standard_D2s_v5", false, 3)
		}, provider.Warning, "AKSNodeClass general: subnet small", "8 of 11 addresses are free", "enlarge it"},
		"no addresses": {func(w *world) {
			w.config.SubnetID = w.AddSubnet(azuretest.Group, "network", "tiny", "10.2.0.0/29")
			w.launch("a", "Standard_D2s_v5", false, 3)
		}, provider.Problem, "AKSNodeClass general: subnet tiny", "all 3 addresses are in use", "enlarge it"},
		"no security group": {func(w *world) { w.class.Spec.NetworkSecurityGroupID += "-none" }, provider.Problem, "AKSNodeClass general: network security group guard-none", "does not exist", "spec.networkSecurityGroupID"},
		"a security group of others": {func(w *world) { w.Grant(w.class.Spec.NetworkSecurityGroupID) }, provider.Problem, "AKSNodeClass general: network security group guard",
			"Microsoft.Network/networkSecurityGroups/join/action", "deploy/azure/role.json"},
		"no balancer": {func(w *world) {
			w.class.Spec.LoadBalancerBackendPoolIDs[0] = w.id("Microsoft.Network/loadBalancers/none/backendAddressPools/web")
		}, provider.Problem, "AKSNodeClass general: backend pool web", "does not exist", "spec.loadBalancerBackendPoolIDs"},
		"no pool":              {func(w *world) { w.class.Spec.LoadBalancerBackendPoolIDs[0] += "-none" }, provider.Problem, "AKSNodeClass general: backend pool web-none", "load balancer front has no such pool", "spec.loadBalancerBackendPoolIDs"},
		"a balancer of others": {func(w *world) { w.Grant(w.balancer) }, provider.Problem, "AKSNodeClass general: backend pool web", "Microsoft.Network/loadBalancers/backendAddressPools/join/action", "role.json"},
		"no image":             {func(w *world) { w.class.Spec.ImageID += "-none" }, provider.Problem, "AKSNodeClass general: image", "there is no image", ""},
		"an image of others":   {func(w *world) { w.Fail("GalleryImageVersions_ListByGalleryImage", denied) }, provider.Problem, "AKSNodeClass general: image", "AuthorizationFailed", "Microsoft.Compute/galleries/images/versions/read"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.disturb(w)
			found := w.examine()
			if !slices.ContainsFunc(found, func(f provider.Finding) bool {
				return f.Level == c.level && f.Object == c.object && strings.Contains(f.Says, c.says) && strings.Contains(f.Do, c.does)
			}) {
				t.Errorf("no %s of %q says %q with %q:\n%s", c.level, c.object, c.says, c.does, all(found))
			}
			bad := 0
			for _, f := range found {
				if f.Level != provider.OK {
					bad++
				}
			}
			if bad != 1 && name != "rights cannot be seen" { // there is one for each thing
				t.Errorf("%d findings for one trouble:\n%s", bad, all(found))
			}
		})
	}
}

// madeByAKS makes AKS create a machine of a cluster, and returns the ID for a claim.
func (w *world) madeByAKS(cluster string) string {
	id, _ := w.AddAKSMachine(azuretest.AKSMachine{Cluster: "own", ClusterGroup: "Clusters", Pool: "pool", Name: "a", Size: "Standard_D2s_v5",
		Tags: map[string]string{"karpenter.azure.com_cluster": cluster, "karpenter.azure.com_aksmachine_nodeclaim": "a"}})
	return id
}

func TestMachinesThatAKSHasMadeForOthersAreNotAskedAbout(t *testing.T) {
	w := newWorld(t)
	w.madeByAKS("another")
	if text := all(w.examine()); strings.Contains(text, "AKS itself") || strings.Contains(text, "of AKS") {
		t.Error(text)
	}
	w.config.AKSMachines = []string{w.madeByAKS("demo"), "no ID"}
	if text := all(w.examine()); !strings.Contains(text, "ok cluster own of AKS: what the controller does there is allowed") {
		t.Error(text)
	}
}

// Machines of AKS have an extension, machines of other clusters do not.
func TestExtensionsNeedARightInAKSAlone(t *testing.T) {
	w := newWorld(t)
	w.Grant(w.group(), "*/read", "Microsoft.Network/networkInterfaces/*", "Microsoft.Compute/disks/*", "Microsoft.Compute/virtualMachines/write", "Microsoft.Compute/virtualMachines/delete")
	for _, selfManaged := range []bool{true, false} {
		w.config.SelfManaged = selfManaged
		if text := all(w.examine()); strings.Contains(text, "not allowed: Microsoft.Compute/virtualMachines/extensions/write") == selfManaged {
			t.Errorf("self-managed %v:\n%s", selfManaged, text)
		}
	}
}

// Spot machines count only against the quota for spot.
func TestSpotMachinesDoNotUseTheQuotaOfTheirFamily(t *testing.T) {
	w := newWorld(t)
	w.launch("a", "Standard_D2s_v5", true, 1)
	w.SetQuota("standardDSv5Family", 0)
	w.SetQuota("lowPriorityCores", 2)
	found := w.examine()
	if text := all(found); strings.Contains(text, "standardDSv5Family") || !strings.Contains(text, "warning quota Total Regional Spot vCPUs: all 2 cores are in use") {
		t.Error(text)
	}
}

func all(found []provider.Finding) string {
	var out strings.Builder
	for _, f := range found {
		fmt.Fprintf(&out, "%s %s: %s → %s\n", f.Level, f.Object, f.Says, f.Do)
	}
	return out.String()
}
