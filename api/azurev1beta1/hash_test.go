package azurev1beta1_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
)

type class = azurev1beta1.AKSNodeClass

// classOf parses the spec of a class.
func classOf(t *testing.T, spec string) *class {
	t.Helper()
	c := &class{}
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Spec); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	ordinary  = `{imageFamily: Ubuntu, osDiskSizeGB: 128}`
	ofOnesOwn = `
imageFamily: Custom
imageID: /subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/G/images/D
osDiskSizeGB: 64
osDiskType: Managed
osDiskStorageAccountType: Premium_LRS
userData: "#cloud-config"
vnetSubnetID: /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n
networkSecurityGroupID: /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkSecurityGroups/n
applicationSecurityGroupIDs: [asg-a, asg-b]
loadBalancerBackendPoolIDs: [pool-a, pool-b]
managedIdentities: [id-a, id-b]
dataDisks: [{sizeGB: 32, lun: 0, caching: ReadOnly}, {sizeGB: 64, lun: 1, storageAccountType: Premium_LRS}]
overhead: {kubeReserved: {cpu: 100m}}
maxPods: 110
tags: {team: a, cost: b}
`
	ofAKS = `
imageFamily: Ubuntu2204
osDiskSizeGB: 128
fipsMode: FIPS
security: {encryptionAtHost: true, trustedLaunch: {vtpm: true, secureBoot: true}}
gpu: {mode: Driver}
artifactStreaming: {enabled: true}
kubelet:
  {cpuManagerPolicy: static, cpuCFSQuota: true, cpuCFSQuotaPeriod: 100ms, topologyManagerPolicy: none, containerLogMaxSize: 50Mi, containerLogMaxFiles: 5,
  imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80, podPidsLimit: 100, failSwapOn: false, allowedUnsafeSysctls: [a, b]}
linuxOSConfig: {swapFileSize: 1Gi, transparentHugePageEnabled: never, transparentHugePageDefrag: never, sysctls: {vmSwappiness: 0, netIPv4TCPTwReuse: false}}
localDNS:
  mode: Required
  vnetDNSOverrides: [{zone: .}, {zone: cluster.local}]
  kubeDNSOverrides: [{zone: .}, {zone: cluster.local}]
`
)

// The values are fixed, because others would make all machines of all clusters drift. If Hash must change, HashVersion must change too.
func TestHashesOfClassesAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, want string }{
		{`{}`, "9004019373622409257"}, {ordinary, "15377412183370520903"}, {ofOnesOwn, "1726070690054012027"}, {ofAKS, "15953216130674030973"},
	} {
		if got := classOf(t, test.spec).Hash(); got != test.want || azurev1beta1.HashVersion != "tenon-v1" {
			t.Errorf("hash %s of version %s, want %s, of\n%s", got, azurev1beta1.HashVersion, test.want, test.spec)
		}
	}
}

func TestWhatMakesMachinesDrift(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *class){
		"vnetSubnetID":                func(c *class) { c.Spec.VNETSubnetID = "a" },
		"osDiskSizeGB":                func(c *class) { c.Spec.OSDiskSizeGB = new(int32(256)) },
		"osDiskType":                  func(c *class) { c.Spec.OSDiskType = azurev1beta1.OSDiskEphemeral },
		"osDiskStorageAccountType":    func(c *class) { c.Spec.OSDiskStorageAccountType = "Standard_LRS" },
		"dataDisks":                   func(c *class) { c.Spec.DataDisks = append(c.Spec.DataDisks, azurev1beta1.DataDisk{SizeGB: 1, LUN: 5}) },
		"imageFamily":                 func(c *class) { c.Spec.ImageFamily = azurev1beta1.FamilyUbuntu2404 },
		"imageID":                     func(c *class) { c.Spec.ImageID = "a:b:c:latest" },
		"userData":                    func(c *class) { c.Spec.UserData = "#!/bin/sh" },
		"fipsMode":                    func(c *class) { c.Spec.FIPSMode = map[string]string{"": "FIPS", "FIPS": ""}[c.Spec.FIPSMode] },
		"networkSecurityGroupID":      func(c *class) { c.Spec.NetworkSecurityGroupID = "a" },
		"applicationSecurityGroupIDs": func(c *class) { c.Spec.ApplicationSecurityGroupIDs = []string{"a"} },
		"loadBalancerBackendPoolIDs":  func(c *class) { c.Spec.LoadBalancerBackendPoolIDs = []string{"a"} },
		"maxPods":                     func(c *class) { c.Spec.MaxPods = new(int32(30)) },
		"encryptionAtHost": func(c *class) {
			c.Spec.Security = &azurev1beta1.Security{EncryptionAtHost: c.Spec.Security == nil}
		},
		"vtpm": func(c *class) {
			c.Spec.Security = &azurev1beta1.Security{TrustedLaunch: &azurev1beta1.TrustedLaunch{VTPM: true}}
		},
		"secureBoot": func(c *class) {
			c.Spec.Security = &azurev1beta1.Security{TrustedLaunch: &azurev1beta1.TrustedLaunch{SecureBoot: true}}
		},
		"gpu.mode":                  func(c *class) { c.Spec.GPU = &azurev1beta1.GPU{Mode: "None"} },
		"artifactStreaming.enabled": func(c *class) { c.Spec.ArtifactStreaming = &azurev1beta1.ArtifactStreaming{Enabled: new(false)} },
		"kubelet.cpuManagerPolicy":  func(c *class) { c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{CPUManagerPolicy: "none"} },
		"kubelet.cpuCFSQuota":       func(c *class) { c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{CPUCFSQuota: new(false)} },
		"kubelet.cpuCFSQuotaPeriod": func(c *class) {
			c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{CPUCFSQuotaPeriod: &metav1.Duration{Duration: time.Second}}
		},
		"kubelet.imageGCLowThresholdPercent": func(c *class) {
			c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{ImageGCLowThresholdPercent: new(int32(0))}
		},
		"kubelet.failSwapOn": func(c *class) { c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{FailSwapOn: new(true)} },
		"kubelet.allowedUnsafeSysctls": func(c *class) {
			c.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{AllowedUnsafeSysctls: []string{"c"}}
		},
		"linuxOSConfig.swapFileSize": func(c *class) { c.Spec.LinuxOSConfig = &azurev1beta1.LinuxOSConfig{SwapFileSize: "2Gi"} },
		"linuxOSConfig.sysctls": func(c *class) {
			c.Spec.LinuxOSConfig = &azurev1beta1.LinuxOSConfig{Sysctls: &azurev1beta1.Sysctls{VMSwappiness: new(int32(1))}}
		},
		"localDNS.mode": func(c *class) { c.Spec.LocalDNS = &azurev1beta1.LocalDNS{Mode: "Disabled"} },
		"a zone of localDNS": func(c *class) {
			c.Spec.LocalDNS = &azurev1beta1.LocalDNS{KubeDNSOverrides: []azurev1beta1.LocalDNSZone{{Zone: "a"}}}
		},
	} {
		for _, spec := range []string{ordinary, ofOnesOwn, ofAKS} {
			changed := classOf(t, spec)
			change(changed)
			if before := classOf(t, spec); changed.Hash() == before.Hash() {
				t.Errorf("%s: the hash is the same, of\n%s", name, spec)
			}
		}
	}
}

func TestWhatDoesNotMakeMachinesDrift(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   string
		change func(c *class)
	}{
		"tags":                        {ordinary, func(c *class) { c.Spec.Tags = map[string]string{"a": "b"} }},
		"identities":                  {ordinary, func(c *class) { c.Spec.ManagedIdentities = []string{"a"} }},
		"what is only planned with":   {ofOnesOwn, func(c *class) { c.Spec.Overhead = &v1.Overhead{} }},
		"no FIPS, said aloud":         {ordinary, func(c *class) { c.Spec.FIPSMode = azurev1beta1.FIPSDisabled }},
		"no security":                 {ordinary, func(c *class) { c.Spec.Security = &azurev1beta1.Security{} }},
		"no encryption, said aloud":   {ordinary, func(c *class) { c.Spec.Security = classOf(t, `security: {encryptionAtHost: false}`).Spec.Security }},
		"no trusted launch":           {ordinary, func(c *class) { c.Spec.Security = classOf(t, `security: {trustedLaunch: {vtpm: false}}`).Spec.Security }},
		"no sysctls":                  {ordinary, func(c *class) { c.Spec.LinuxOSConfig = classOf(t, `linuxOSConfig: {sysctls: {}}`).Spec.LinuxOSConfig }},
		"disks in another order":      {ofOnesOwn, func(c *class) { slices.Reverse(c.Spec.DataDisks) }},
		"groups in another order":     {ofOnesOwn, func(c *class) { slices.Reverse(c.Spec.ApplicationSecurityGroupIDs) }},
		"pools in another order":      {ofOnesOwn, func(c *class) { slices.Reverse(c.Spec.LoadBalancerBackendPoolIDs) }},
		"sysctls in another order":    {ofAKS, func(c *class) { slices.Reverse(c.Spec.Kubelet.AllowedUnsafeSysctls) }},
		"zones in another order":      {ofAKS, func(c *class) { slices.Reverse(c.Spec.LocalDNS.VnetDNSOverrides) }},
		"the others in another order": {ofAKS, func(c *class) { slices.Reverse(c.Spec.LocalDNS.KubeDNSOverrides) }},
		"a period in other words":     {ofAKS, func(c *class) { c.Spec.Kubelet = classOf(t, strings.Replace(ofAKS, "100ms", "0.1s", 1)).Spec.Kubelet }},
		"labels, status":              {ordinary, func(c *class) { c.Labels, c.Status.KubernetesVersion = map[string]string{"a": "b"}, new("1.34.1") }},
	} {
		changed := classOf(t, test.spec)
		test.change(changed)
		if changed.Hash() != classOf(t, test.spec).Hash() {
			t.Errorf("%s: the hash is another", name)
		}
	}
}

func TestHashLeavesTheClassAsItIs(t *testing.T) {
	t.Parallel()
	c := classOf(t, `{kubelet: {allowedUnsafeSysctls: [b, a]}, tags: {a: b}, fipsMode: Disabled}`)
	c.Hash()
	c.InPlaceUpdateHash([]string{"b", "a"}, map[string]string{"c": "d"})
	if c.Spec.Kubelet.AllowedUnsafeSysctls[0] != "b" || len(c.Spec.Tags) != 1 || c.Spec.FIPSMode != azurev1beta1.FIPSDisabled {
		t.Errorf("spec %+v", c.Spec)
	}
}

// An up-to-date machine must not look outdated to the next version, because that version would update each of the claim's machines again.
func TestHashesOfWhatIsChangedInPlaceAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec       string
		identities []string
		tags       map[string]string
		want       string
	}{
		{ordinary, nil, nil, "1632945779"},
		{ofOnesOwn, []string{"id-c"}, map[string]string{"owner": "me"}, "118680178"},
	} {
		if got := classOf(t, test.spec).InPlaceUpdateHash(test.identities, test.tags); got != test.want {
			t.Errorf("hash %s, want %s", got, test.want)
		}
	}
}

func TestWhatIsChangedInPlace(t *testing.T) {
	t.Parallel()
	identities, tags := []string{"id-b", "id-c"}, map[string]string{"team": "all", "owner": "me"}
	before := classOf(t, ofOnesOwn).InPlaceUpdateHash(identities, tags)
	for name, test := range map[string]struct {
		change     func(c *class)
		identities []string
		tags       map[string]string
		same       bool
	}{
		"a tag":                      {func(c *class) { c.Spec.Tags["team"] = "b" }, identities, tags, false},
		"a tag less":                 {func(c *class) { delete(c.Spec.Tags, "cost") }, identities, tags, false},
		"a tag of the settings":      {func(*class) {}, identities, map[string]string{"team": "all", "owner": "you"}, false},
		"an identity":                {func(c *class) { c.Spec.ManagedIdentities = []string{"id-a", "id-d"} }, identities, tags, false},
		"one of the settings":        {func(*class) {}, []string{"id-b"}, tags, false},
		"an image":                   {func(c *class) { c.Spec.ImageID = "a:b:c:latest" }, identities, tags, true},
		"identities in another way":  {func(c *class) { slices.Reverse(c.Spec.ManagedIdentities) }, []string{"id-c", "id-b", "id-a"}, tags, true},
		"a tag that the class hides": {func(*class) {}, identities, map[string]string{"team": "none", "owner": "me"}, true},
	} {
		c := classOf(t, ofOnesOwn)
		test.change(c)
		if same := c.InPlaceUpdateHash(test.identities, test.tags) == before; same != test.same {
			t.Errorf("%s: the same hash: %t", name, same)
		}
	}
}

func TestLabelsOfMachinesMayBeAskedFor(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		azurev1beta1.NodeClassLabelKey, azurev1beta1.SKUNameLabelKey, azurev1beta1.SKUFamilyLabelKey, azurev1beta1.SKUSeriesLabelKey,
		azurev1beta1.SKUVersionLabelKey, azurev1beta1.SKUCPULabelKey, azurev1beta1.SKUMemoryLabelKey, azurev1beta1.SKUAcceleratedNetworkLabelKey,
		azurev1beta1.SKUPremiumStorageLabelKey, azurev1beta1.SKUEphemeralOSDiskLabelKey, azurev1beta1.SKUUltraSSDLabelKey, azurev1beta1.SKUGPUNameLabelKey,
		azurev1beta1.SKUGPUManufacturerLabelKey, azurev1beta1.SKUGPUCountLabelKey, azurev1beta1.PlacementScopeLabelKey,
	} {
		if problem := v1.LabelRestriction(key); problem != "" {
			t.Error(problem)
		}
	}
	if v1.LabelRestriction(azurev1beta1.SKUHyperVGenerationLabelKey) == "" {
		t.Error("what images are chosen by can be asked for")
	}
}
