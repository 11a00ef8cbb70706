package azure_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

func in(key string, values ...string) v1.Requirement {
	return v1.Requirement{Key: key, Operator: v1.In, Values: values}
}

// asked returns the flattened body of the last call of an operation: "properties.osProfile.computerName" and so on.
func (w *world) asked(operation string) map[string]string {
	w.Helper()
	calls := w.Calls(operation)
	if len(calls) == 0 {
		w.Fatalf("no call of %s", operation)
	}
	var body any
	w.must(json.Unmarshal(calls[len(calls)-1].Body, &body))
	out := map[string]string{}
	flatten("", body, out)
	return out
}

func flatten(path string, value any, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			flatten(strings.TrimPrefix(path+"."+key, "."), inner, out)
		}
		if len(v) == 0 {
			out[path] = "{}"
		}
	case []any:
		for i, inner := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), inner, out)
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// wants checks fields of the request; "" means that the field is absent.
func (w *world) wants(operation string, fields map[string]string) {
	w.Helper()
	got := w.asked(operation)
	for path, want := range fields {
		if got[path] != want {
			w.Errorf("%s: %s is %q, want %q", operation, path, got[path], want)
		}
	}
}

const (
	putVM  = "VirtualMachines_CreateOrUpdate"
	putNIC = "NetworkInterfaces_CreateOrUpdate"
)

func TestWhatIsAskedForAMachineOnDemand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *azure.Config) {
		c.AdditionalTags = map[string]string{"team": "a", "Karpenter.azure.com_Cluster": "another", "cost": "1"}
	})
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) {
		c.Spec.Tags = map[string]string{"Team": "b", "example.com/owner": "x"}
	})
	m, err := w.launch(w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D4s_v5"), in(corev1.LabelTopologyZone, "eastus-2"), in(v1.CapacityTypeLabelKey, "on-demand")}, nil), c)
	w.must(err)
	nic := "/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Network/networkInterfaces/a"
	w.wants(putVM, map[string]string{
		"location": "eastus", "zones[0]": "2", "zones[1]": "", "identity.type": "", "plan.name": "",
		"properties.hardwareProfile.vmSize":             "Standard_D4s_v5",
		"properties.priority":                           "Regular",
		"properties.evictionPolicy":                     "",
		"properties.billingProfile.maxPrice":            "",
		"properties.storageProfile.imageReference.id":   w.image + "/versions/1.0.0",
		"properties.storageProfile.osDisk.name":         "a",
		"properties.storageProfile.osDisk.diskSizeGB":   "128",
		"properties.storageProfile.osDisk.deleteOption": "Delete", "properties.storageProfile.osDisk.createOption": "FromImage",
		"properties.storageProfile.osDisk.diffDiskSettings.option":               "",
		"properties.storageProfile.osDisk.managedDisk.storageAccountType":        "",
		"properties.networkProfile.networkInterfaces[0].id":                      nic,
		"properties.networkProfile.networkInterfaces[0].properties.deleteOption": "Delete",
		"properties.osProfile.computerName":                                      "a",
		"properties.osProfile.adminUsername":                                     "azureuser",
		"properties.osProfile.linuxConfiguration.disablePasswordAuthentication":  "true",
		"properties.osProfile.linuxConfiguration.ssh.publicKeys[0].path":         path.Join("/home", "azureuser", ".ssh", "authorized_keys"),
		"properties.securityProfile.securityType":                                "",
		"tags.karpenter.azure.com_cluster":                                       clusterName,
		"tags.Karpenter.azure.com_Cluster":                                       "",
		"tags.karpenter.sh_nodepool":                                             "pool",
		"tags.tenon.sh_nodeclaim":                                                "a",
		"tags.tenon.sh_nodeclaim-uid":                                            "a-uid",
		"tags.Team":                                                              "b",
		"tags.team":                                                              "",
		"tags.example.com_owner":                                                 "x",
		"tags.cost":                                                              "1",
		"tags.compute.aks.billing":                                               "",
	})
	w.wants(putNIC, map[string]string{
		"location": "eastus", "properties.enableAcceleratedNetworking": "true", "properties.enableIPForwarding": "false",
		"properties.ipConfigurations[0].name":                 "a",
		"properties.ipConfigurations[0].properties.primary":   "true",
		"properties.ipConfigurations[0].properties.subnet.id": w.subnet,
		"properties.ipConfigurations[1].name":                 "",
		"properties.networkSecurityGroup.id":                  "",
		"tags.karpenter.azure.com_cluster":                    clusterName,
	})
	text, err := base64.StdEncoding.DecodeString(w.CustomData("a"))
	w.must(err)
	if string(text) != "#!/bin/sh\njoin demo a\n" {
		t.Errorf("it is told %q", text)
	}
	want := engine.MachineID("azure:///subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/a")
	if m.ID != want || m.ImageID != w.image+"/versions/1.0.0" || m.Labels["karpenter.azure.com/placement-scope"] != "zonal" || m.Labels["kubernetes.azure.com/scalesetpriority"] != "regular" ||
		m.Labels["karpenter.azure.com/sku-cpu"] != "4" || m.Labels["karpenter.azure.com/sku-hyperv-generation"] != "" || m.Annotations[azurev1beta1.HashAnnotationKey] != c.Hash() {
		t.Errorf("machine %+v", m)
	}
}

func TestWhatIsAskedForASpotMachineWithEverything(t *testing.T) {
	t.Parallel()
	identity := func(name string) string {
		return "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.ManagedIdentity/userAssignedIdentities/" + name
	}
	w := newWorld(t, func(c *azure.Config) {
		c.NodeIdentities, c.SSHPublicKey, c.AdminUsername = []string{identity("kubelet")}, "ssh-ed25519 AAAA me", "me"
	})
	pools := w.AddBalancer(azuretest.Group, "own", "workers")
	group := w.Put(azuretest.Group, "Microsoft.Network/networkSecurityGroups", "own", map[string]any{})
	application := w.Put(azuretest.Group, "Microsoft.Network/applicationSecurityGroups", "own", map[string]any{})
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) {
		c.Spec.Security = &azurev1beta1.Security{EncryptionAtHost: true, TrustedLaunch: &azurev1beta1.TrustedLaunch{VTPM: true, SecureBoot: true}}
		c.Spec.ManagedIdentities = []string{identity("Kubelet"), identity("own")}
		c.Spec.DataDisks = []azurev1beta1.DataDisk{{SizeGB: 100, LUN: 3, StorageAccountType: "Premium_LRS", Caching: "ReadOnly"}}
		c.Spec.OSDiskSizeGB = new(int32(60))
		c.Spec.NetworkSecurityGroupID, c.Spec.ApplicationSecurityGroupIDs, c.Spec.LoadBalancerBackendPoolIDs = group, []string{application}, pools
	})
	_, err := w.launch(w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D64s_v3"), in(v1.CapacityTypeLabelKey, "spot")}, nil), c)
	w.must(err)
	w.wants(putVM, map[string]string{
		"properties.priority": "Spot", "properties.evictionPolicy": "Delete", "properties.billingProfile.maxPrice": "-1",
		"properties.storageProfile.osDisk.diffDiskSettings.option": "Local", "properties.storageProfile.osDisk.diffDiskSettings.placement": "CacheDisk",
		"properties.storageProfile.osDisk.caching": "ReadOnly", "properties.storageProfile.osDisk.diskSizeGB": "60",
		"properties.storageProfile.dataDisks[0].lun": "3", "properties.storageProfile.dataDisks[0].diskSizeGB": "100", "properties.storageProfile.dataDisks[0].deleteOption": "Delete",
		"properties.storageProfile.dataDisks[0].managedDisk.storageAccountType": "Premium_LRS", "properties.storageProfile.dataDisks[0].caching": "ReadOnly",
		"properties.securityProfile.encryptionAtHost": "true", "properties.securityProfile.securityType": "TrustedLaunch",
		"properties.securityProfile.uefiSettings.vTpmEnabled": "true", "properties.securityProfile.uefiSettings.secureBootEnabled": "true",
		"identity.type": "UserAssigned", "identity.userAssignedIdentities." + identity("kubelet"): "{}", "identity.userAssignedIdentities." + identity("own"): "{}",
		"identity.userAssignedIdentities." + identity("Kubelet"):            "",
		"properties.osProfile.linuxConfiguration.ssh.publicKeys[0].keyData": "ssh-ed25519 AAAA me",
		"properties.osProfile.linuxConfiguration.ssh.publicKeys[0].path":    path.Join("/home", "me", ".ssh", "authorized_keys"),
	})
	w.wants(putNIC, map[string]string{
		"properties.networkSecurityGroup.id":                                              group,
		"properties.ipConfigurations[0].properties.applicationSecurityGroups[0].id":       application,
		"properties.ipConfigurations[0].properties.loadBalancerBackendAddressPools[0].id": pools[0],
	})
}

func TestPodsMayHaveAddressesOfTheSubnet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *azure.Config) { c.NetworkPlugin, c.NetworkPluginMode = "azure", "" })
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) { c.Spec.MaxPods = new(int32(12)) })
	_, err := w.launch(w.claim("a", nil, nil), c)
	w.must(err)
	w.wants(putNIC, map[string]string{
		"properties.ipConfigurations[11].name": "ipconfig11", "properties.ipConfigurations[11].properties.primary": "false",
		"properties.ipConfigurations[11].properties.loadBalancerBackendAddressPools[0].id": "", "properties.ipConfigurations[12].name": "",
	})
}

// An offering that fails late is replaced in the same launch: spot in a zone, then spot elsewhere, then on demand.
func TestWhatDoesNotComeToBeIsReplacedByTheNextBest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Take(azuretest.Timing{Create: 20 * time.Second, Delete: 30 * time.Second})
	w.Limit(azuretest.Offering{CapacityType: "spot"}, 0, "OverconstrainedAllocationRequest")
	c := w.resolved("general", nil)
	claim := w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5")}, nil)
	m, err := w.launch(claim, c)
	w.must(err)
	if m.Labels[v1.CapacityTypeLabelKey] != "on-demand" || len(w.names()) != 1 || w.left() != 3 {
		t.Errorf("got %v, %d things are there", m.Labels, w.left())
	}
	if len(w.Calls(putVM)) != 4 { // three zones of spot
		t.Errorf("%d machines were asked for", len(w.Calls(putVM)))
	}
	if len(w.told) != 3 || w.told[0].Reason != "AsyncProvisioningError" || !strings.Contains(w.told[0].Message, "OverconstrainedAllocationRequest") || w.told[0].Object.GetName() != "a" {
		t.Errorf("told %+v", w.told)
	}
	types, err := w.provider.Catalog(t.Context(), seen(c))
	w.must(err)
	for _, it := range types {
		for _, o := range it.Offerings {
			if it.Name == "Standard_D2s_v5" && o.SoldOut != (o.CapacityType == "spot") {
				t.Errorf("%s %s: sold out %v", o.Zone, o.CapacityType, o.SoldOut)
			}
		}
	}
}

func TestNothingIsLeftOfALaunchThatGotNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	for _, code := range []string{"SkuNotAvailable", "ZonalAllocationFailed"} {
		w.Limit(azuretest.Offering{}, 0, code)
		claim := w.claim(strings.ToLower(code), []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5", "Standard_E4s_v5"), in(v1.CapacityTypeLabelKey, "on-demand")}, nil)
		_, err := w.launch(claim, c)
		soldOut := (*provider.SoldOutError)(nil)
		if !errors.As(err, &soldOut) || len(soldOut.Offerings) != 6 || code == "SkuNotAvailable" && soldOut.Cause != code {
			t.Errorf("%s: %v", code, err)
		}
		w.must(w.client.Delete(t.Context(), claim))
		w.Heal()
	}
	for range 2 {
		w.must(w.provider.Clean(t.Context()))
		w.clock.Step(6 * time.Minute)
	}
	w.must(w.provider.Clean(t.Context()))
	if w.left() != 0 {
		t.Errorf("%d things are left", w.left())
	}
}

// A machine may become ready although Azure reported a failure of the operation. The machine's state counts, not the operation's result.
func TestAMachineThatComesUpLateIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Take(azuretest.Timing{Create: 20 * time.Second})
	w.Subscription.Fail(putVM, azuretest.Fault{Code: "OSProvisioningTimedOut", Message: "OS Provisioning for VM 'a' did not finish in the allotted time.", Async: true, Late: true, Times: 1})
	c := w.resolved("general", nil)
	_, err := w.launch(w.claim("a", nil, nil), c)
	w.must(err)
	if len(w.Calls("VirtualMachines_Delete")) != 0 || len(w.names()) != 1 {
		t.Errorf("machines %v", w.names())
	}
}

// An error that other offerings would have too is reported, and no part of the attempt remains.
func TestAFailureThatOthersWouldShareIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.Subscription.Fail(putVM, azuretest.Fault{Code: "VMExtensionProvisioningError", Message: "it broke", Async: true, Times: 1})
	claim := w.claim("a", nil, nil)
	_, err := w.launch(claim, c)
	launch := (*provider.LaunchError)(nil)
	if !errors.As(err, &launch) || launch.Reason != "CreateInstanceFailed" || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("got %v", err)
	}
	if len(w.names()) != 0 {
		t.Errorf("machines %v", w.names())
	}
	_, err = w.launch(claim, c) // the next attempt
	w.must(err)
}

func TestALaunchGoesOnInAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Take(azuretest.Timing{Create: 30 * time.Second})
	c := w.resolved("general", nil)
	claim := w.claim("a", nil, nil)
	_, err := w.provider.Launch(t.Context(), claim, seen(c))
	if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) || pending.RetryAfter <= 0 || !strings.Contains(err.Error(), "machine a") {
		t.Fatalf("got %v", err)
	}
	w.restart()
	w.must(w.client.Get(t.Context(), clientKey("a"), claim)) // the claim has an annotation from before the call
	first, err := w.launch(claim, c)
	w.must(err)
	w.restart()
	second, err := w.launch(claim, c)
	w.must(err)
	if first.ID != second.ID || len(w.Calls(putVM)) != 1 || second.Capacity.Cpu().IsZero() {
		t.Errorf("first %+v, then %+v, %d machines were asked for", first, second, len(w.Calls(putVM)))
	}
}

// A machine of the same name that belongs to another cluster or claim is not used.
func TestNamesThatAreTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", nil, nil)
	_, err := w.launch(claim, c)
	w.must(err)
	w.must(w.client.Delete(t.Context(), claim))

	again := w.claim("a", nil, nil)
	again.UID = "another-uid"
	again.Annotations = map[string]string{v1.LaunchTokenAnnotationKey: "a"}
	_, err = w.launch(again, c)
	if launch := (*provider.LaunchError)(nil); !errors.As(err, &launch) || launch.Reason != "NameTaken" {
		t.Errorf("another claim: %v", err)
	}
	w.config.ClusterName = "other"
	w.restart()
	if _, err := w.launch(again, c); err == nil || !strings.Contains(err.Error(), `belongs to another cluster, by its tag: to "demo", not to "other"`) {
		t.Errorf("another cluster: %v", err)
	}
	if len(w.names()) != 1 {
		t.Errorf("machines %v", w.names())
	}
}

func TestLongNamesAreCutSoThatTheyStayApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	long := strings.Repeat("a-very-long-name-of-a-pool-", 3)
	for _, end := range []string{"x1234", "x1235"} {
		_, err := w.launch(w.claim(long+end, nil, nil), c)
		w.must(err)
	}
	names := w.names()
	if len(names) != 2 || len(names[0]) > 64 || !strings.HasPrefix(names[0], "a-very-long-name") {
		t.Errorf("names %v", names)
	}
}

// knowsQuotas waits for the answer about quotas. Launches do without quotas if the answer takes too long on the test's clock.
func (w *world) knowsQuotas(c *azurev1beta1.AKSNodeClass) {
	w.Helper()
	_, err := w.provider.Catalog(w.Context(), seen(c)) // this requests the quotas
	w.must(err)
	for {
		quotas, err := w.provider.Quotas(w.Context(), provider.Class{})
		w.must(err)
		if len(quotas) > 0 {
			return
		}
		w.must(w.Context().Err())
		runtime.Gosched()
	}
}

func TestQuotaIsKnownBeforehandAndSpotHasItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.SetQuota("standardDSv5Family", 2)
	c := w.resolved("general", nil)
	w.knowsQuotas(c)
	family := in("karpenter.azure.com/sku-family", "D")
	_, err := w.launch(w.claim("a", []v1.Requirement{family, in(v1.CapacityTypeLabelKey, "on-demand"), in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5", "Standard_D4s_v5")}, nil), c)
	w.must(err)
	asked := len(w.Calls(putVM))
	w.clock.Step(2 * time.Minute)
	_, err = w.launch(w.claim("b", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5"), in(v1.CapacityTypeLabelKey, "on-demand")}, nil), c)
	if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || len(w.Calls(putVM)) != asked {
		t.Errorf("got %v after %d calls", err, len(w.Calls(putVM))-asked)
	}
	m, err := w.launch(w.claim("c", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5")}, nil), c)
	w.must(err)
	if m.Labels[v1.CapacityTypeLabelKey] != "spot" {
		t.Errorf("labels %v", m.Labels)
	}
}

func TestMachinesThatAreInNoZoneAreForPoolsThatAskForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	zones := func() (out []string) {
		types, err := w.provider.Catalog(t.Context(), seen(c))
		w.must(err)
		for _, it := range types {
			for _, o := range it.Offerings {
				if !slices.Contains(out, o.Zone) {
					out = append(out, o.Zone)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	if got := zones(); !slices.Equal(got, []string{"eastus-1", "eastus-2", "eastus-3"}) {
		t.Errorf("zones %v", got)
	}
	pool := &v1.NodePool{}
	pool.Name = "regional"
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: azurev1beta1.Group, Kind: "AKSNodeClass", Name: "general"}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{in("karpenter.azure.com/placement-scope", "regional")}
	w.must(w.client.Create(t.Context(), pool))
	if got := zones(); !slices.Equal(got, []string{"0", "eastus-1", "eastus-2", "eastus-3"}) {
		t.Errorf("zones %v", got)
	}
	m, err := w.launch(w.claim("a", pool.Spec.Template.Spec.Requirements, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}), c)
	w.must(err)
	w.wants(putVM, map[string]string{"zones[0]": ""})
	if m.Labels[corev1.LabelTopologyZone] != "0" || m.Labels["karpenter.azure.com/placement-scope"] != "regional" {
		t.Errorf("labels %v", m.Labels)
	}
	m, err = w.launch(w.claim("b", []v1.Requirement{in(corev1.LabelTopologyZone, "")}, nil), c) // as in the labels of disks
	if err != nil || m.Labels[corev1.LabelTopologyZone] != "0" {
		t.Errorf("zone \"\": labels %v, %v", m.Labels, err)
	}
}

// Another object with the name of a machine's network interface is not changed.
func TestAnothersNetworkInterfaceOfThatNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	id := w.Put(azuretest.Group, "Microsoft.Network/networkInterfaces", "a", map[string]any{})
	w.must(w.config.Cloud.TagNIC(t.Context(), azuretest.Group, "a", map[string]*string{"owner": new("me")}))
	_, err := w.launch(w.claim("a", nil, nil), c)
	if launch := (*provider.LaunchError)(nil); !errors.As(err, &launch) || launch.Reason != "NameTaken" {
		t.Errorf("got %v", err)
	}
	if tags := w.Tags(id); len(tags) != 1 || len(w.Calls(putNIC))+len(w.Calls(putVM)) != 0 {
		t.Errorf("its tags are %v", tags)
	}
}

// A class may change while a machine of it is being made. The claim records the settings of the request, so that it drifts.
func TestAClaimRemembersWhatItsMachineWasMadeAs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Take(azuretest.Timing{Create: 30 * time.Second})
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) { c.Spec.Tags = map[string]string{"old": "x"} })
	was := c.Hash()
	claim := w.claim("a", nil, nil)
	_, err := w.provider.Launch(t.Context(), claim, seen(c))
	if pending := (*provider.PendingError)(nil); !errors.As(err, &pending) {
		t.Fatal(err)
	}
	c.Spec.UserData, c.Spec.Tags = "another\n", map[string]string{"new": "y"}
	w.must(w.client.Get(t.Context(), clientKey("a"), claim))
	for _, what := range []string{"the same process", "another"} {
		m, err := w.launch(claim, c)
		w.must(err)
		got := map[string]string{}
		for _, annotations := range []map[string]string{claim.Annotations, m.Annotations} { // as the controllers store them
			for key, value := range annotations {
				got[key] = value
			}
		}
		if got[azurev1beta1.HashAnnotationKey] != was || got[azurev1beta1.HashAnnotationKey] == c.Hash() || !strings.Contains(got[v1.AppliedTagsAnnotationKey], "old") || strings.Contains(got[v1.AppliedTagsAnnotationKey], "new") {
			t.Errorf("%s: %v", what, got)
		}
		w.restart()
	}
}

// An unsuitable size is skipped for a while, like a sold-out one.
func TestASizeThatCannotBeWhatIsAskedForIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.Subscription.Fail(putVM, azuretest.Fault{Status: 400, Code: "InvalidParameter", Message: "The VM size 'Standard_D2s_v5' cannot boot with OS image or disk.", Times: 3})
	m, err := w.launch(w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "Standard_D2s_v5", "Standard_D4s_v5"), in(v1.CapacityTypeLabelKey, "on-demand")}, nil), c)
	w.must(err)
	if m.Labels[corev1.LabelInstanceTypeStable] != "Standard_D4s_v5" {
		t.Errorf("got %v", m.Labels)
	}
}

func TestSizesThatTheImageCannotStartOnForItsDisksAreNotOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const nvmeOnly = "Standard_D128ds_v6"
	offered := func(c *azurev1beta1.AKSNodeClass) bool {
		types, err := w.provider.Catalog(t.Context(), seen(c))
		w.must(err)
		return slices.ContainsFunc(types, func(it engine.InstanceType) bool { return it.Name == nvmeOnly })
	}
	if offered(w.resolved("general", nil)) {
		t.Errorf("%s is offered, which attaches disks by NVMe alone, and the image does not say that it can do that", nvmeOnly)
	}
	for name, id := range map[string]string{
		"gallery": w.image + "-nvme", "community": "/CommunityGalleries/public/images/ubuntu", "market": "canonical:ubuntu:server",
	} {
		w.AddImage(azuretest.Image{ID: id, NVMe: true, Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now()}}})
		if name == "market" {
			id += ":latest"
		}
		c := w.resolved(name, func(c *azurev1beta1.AKSNodeClass) { c.Spec.ImageID = id })
		if !offered(c) {
			t.Errorf("%s: %s is not offered, and the image says that it can do that", name, nvmeOnly)
		}
		if name == "gallery" {
			m, err := w.launch(w.claim("a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, nvmeOnly)}, nil), c)
			w.must(err)
			if _, told := m.Labels[azurev1beta1.SKUDiskControllerLabelKey]; told {
				t.Error("a label that nobody may ask for is on the machine")
			}
		}
	}
}
