package awsv1_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/awsv1"
)

func newClass() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"a": "b"}}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Name: "nodes"}},
		AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
		Role:                       "nodes",
		Tags:                       map[string]string{"team": "a", "cost": "b"},
		UserData:                   new("echo"),
		BlockDeviceMappings: []awsv1.BlockDeviceMapping{
			{DeviceName: new("/dev/xvda"), RootVolume: true, EBS: &awsv1.BlockDevice{VolumeSize: resource.NewScaledQuantity(20, resource.Giga)}},
			{DeviceName: new("/dev/xvdb"), EBS: &awsv1.BlockDevice{SnapshotID: new("snap-1")}},
		},
		MetadataOptions: &awsv1.MetadataOptions{HTTPEndpoint: new("enabled"), HTTPTokens: new("required"), HTTPPutResponseHopLimit: new(int64(1)), HTTPProtocolIPv6: new("disabled")},
		Kubelet:         raw(`{"maxPods":110,"kubeReserved":{"cpu":"1"}}`),
	}}
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// The value is fixed, because another one would make all machines of all clusters drift. If Hash must change, HashVersion must change too.
func TestHashOfAClassIsWhatItWas(t *testing.T) {
	t.Parallel()
	if got, want := newClass().Hash("bundle"), "16286646869812323830"; got != want || awsv1.HashVersion != "tenon-v1" {
		t.Errorf("hash %s of version %s, want %s", got, awsv1.HashVersion, want)
	}
}

func TestWhatMakesMachinesDrift(t *testing.T) {
	t.Parallel()
	type class = awsv1.EC2NodeClass
	ebs := func(c *class) *awsv1.BlockDevice { return c.Spec.BlockDeviceMappings[0].EBS }
	for name, change := range map[string]func(c *class){
		"userData":                 func(c *class) { c.Spec.UserData = new("exit") },
		"role":                     func(c *class) { c.Spec.Role = "others" },
		"instanceProfile":          func(c *class) { c.Spec.Role, c.Spec.InstanceProfile = "", new("nodes") },
		"a tag":                    func(c *class) { c.Spec.Tags["team"] = "b" },
		"context":                  func(c *class) { c.Spec.Context = new("c") },
		"detailedMonitoring":       func(c *class) { c.Spec.DetailedMonitoring = new(true) },
		"instanceStorePolicy":      func(c *class) { c.Spec.InstanceStorePolicy = new("RAID0") },
		"a public address":         func(c *class) { c.Spec.AssociatePublicIPAddress = new(true) },
		"httpEndpoint":             func(c *class) { c.Spec.MetadataOptions.HTTPEndpoint = new("disabled") },
		"httpProtocolIPv6":         func(c *class) { c.Spec.MetadataOptions.HTTPProtocolIPv6 = new("enabled") },
		"httpPutResponseHopLimit":  func(c *class) { c.Spec.MetadataOptions.HTTPPutResponseHopLimit = new(int64(2)) },
		"httpTokens":               func(c *class) { c.Spec.MetadataOptions.HTTPTokens = new("optional") },
		"deviceName":               func(c *class) { c.Spec.BlockDeviceMappings[0].DeviceName = new("/dev/sda") },
		"rootVolume":               func(c *class) { c.Spec.BlockDeviceMappings[0].RootVolume = false },
		"deleteOnTermination":      func(c *class) { ebs(c).DeleteOnTermination = new(true) },
		"encrypted":                func(c *class) { ebs(c).Encrypted = new(true) },
		"iops":                     func(c *class) { ebs(c).IOPS = new(int64(1)) },
		"kmsKeyID":                 func(c *class) { ebs(c).KMSKeyID = new("k") },
		"snapshotID":               func(c *class) { ebs(c).SnapshotID = new("snap-2") },
		"throughput":               func(c *class) { ebs(c).Throughput = new(int64(1)) },
		"volumeInitializationRate": func(c *class) { ebs(c).VolumeInitializationRate = new(int32(100)) },
		"volumeSize":               func(c *class) { ebs(c).VolumeSize = new(resource.MustParse("30Gi")) },
		"volumeType":               func(c *class) { ebs(c).VolumeType = new("gp3") },
		"tcpEstablishedTimeout": func(c *class) {
			c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{TCPEstablishedTimeout: new(int32(60))}
		},
		"udpStreamTimeout": func(c *class) {
			c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPStreamTimeout: new(int32(60))}
		},
		"udpTimeout":              func(c *class) { c.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: new(int32(60))} },
		"nestedVirtualization":    func(c *class) { c.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: new("enabled")} },
		"enclaveOptions":          func(c *class) { c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: new(true)} },
		"networkInterfaces":       func(c *class) { c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}} },
		"placementGroupSelector":  func(c *class) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "a"} },
		"a field of the kubelet":  func(c *class) { c.Spec.Kubelet = raw(`{"maxPods":111,"kubeReserved":{"cpu":"1"}}`) },
		"the family, by an alias": func(c *class) { c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" },
		"the family, by its name": func(c *class) { c.Spec.AMIFamily = new(awsv1.FamilyCustom) },
	} {
		changed := newClass()
		change(changed)
		if changed.Hash("") == newClass().Hash("") {
			t.Errorf("%s: the hash is the same", name)
		}
		if first, second := changed.Hash(""), changed.DeepCopy().Hash(""); first != second {
			t.Errorf("%s: the hash is %s, then %s", name, first, second)
		}
	}
	if newClass().Hash("one") == newClass().Hash("another") {
		t.Error("another bundle of certificate authorities: the hash is the same")
	}
}

func TestWhatDoesNotMakeMachinesDriftByItself(t *testing.T) {
	t.Parallel()
	type class = awsv1.EC2NodeClass
	for name, change := range map[string]func(c *class){
		"subnet terms":         func(c *class) { c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}} },
		"security group terms": func(c *class) { c.Spec.SecurityGroupSelectorTerms[0].Name = "b" },
		"reservation terms": func(c *class) {
			c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
		},
		"another version of the alias": func(c *class) { c.Spec.AMISelectorTerms[0].Alias = "al2023@v20250505" },
		"the family said twice":        func(c *class) { c.Spec.AMIFamily = new(awsv1.FamilyAL2023) },
		"ipPrefixCount":                func(c *class) { c.Spec.IPPrefixCount = new(int32(1)) },
		"no monitoring, said aloud":    func(c *class) { c.Spec.DetailedMonitoring = new(false) },
		"no enclaves, said aloud":      func(c *class) { c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: new(false)} },
		"nothing said of enclaves":     func(c *class) { c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{} },
		"volumes in another order":     func(c *class) { slices.Reverse(c.Spec.BlockDeviceMappings) },
		"kubelet in another order":     func(c *class) { c.Spec.Kubelet = raw(`{"kubeReserved": {"cpu":"1"}, "maxPods": 110}`) },
		"a size in other words":        func(c *class) { c.Spec.BlockDeviceMappings[0].EBS.VolumeSize = new(resource.MustParse("20000M")) },
		"labels, status": func(c *class) {
			c.Labels = map[string]string{"a": "b"}
			c.Status.AMIs = []awsv1.AMI{{ID: "ami-1", Requirements: []corev1.NodeSelectorRequirement{}}}
		},
	} {
		changed := newClass()
		change(changed)
		if changed.Hash("") != newClass().Hash("") {
			t.Errorf("%s: the hash is another", name)
		}
	}
	if a, b := newClass(), newClass(); true {
		a.Spec.Kubelet, b.Spec.Kubelet = nil, raw(`{}`)
		if a.Hash("") != b.Hash("") {
			t.Error("no kubelet and an empty one: the hash is another")
		}
	}
}

func TestHashSurvivesTheAPIServer(t *testing.T) {
	t.Parallel()
	text, err := yaml.Marshal(newClass())
	if err != nil {
		t.Fatal(err)
	}
	back := &awsv1.EC2NodeClass{}
	if err := yaml.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	if got, want := back.Hash(""), newClass().Hash(""); got != want {
		t.Errorf("hash %s after it was stored, %s before", got, want)
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]awsv1.Alias{
		"al2@latest":           {Family: "AL2", Version: "latest"},
		"al2023@v20250505":     {Family: "AL2023", Version: "v20250505"},
		"bottlerocket@v1.36.0": {Family: "Bottlerocket", Version: "v1.36.0"},
		"windows2019@latest":   {Family: "Windows2019", Version: "latest"},
		"windows2022@latest":   {Family: "Windows2022", Version: "latest"},
		"windows2025@latest":   {Family: "Windows2025", Version: "latest"},
	} {
		if got, err := awsv1.ParseAlias(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: text}}}}
		if class.Family() != want.Family {
			t.Errorf("%s: family %s, want %s", text, class.Family(), want.Family)
		}
	}
	for _, text := range []string{"", "@latest", "al2023", "al2023@", "al2023-latest", "al2023@a@b", "ubuntu@latest", "custom@latest", "windows2022@1"} {
		if got, err := awsv1.ParseAlias(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
	if got := (&awsv1.EC2NodeClass{}).Family(); got != awsv1.FamilyCustom {
		t.Errorf("the family of a class that names none is %s", got)
	}
}

func TestTagsThatOnlyTheControllerMaySet(t *testing.T) {
	t.Parallel()
	class := newClass()
	if got := class.RestrictedTags(); got != nil {
		t.Errorf("ordinary tags: %v", got)
	}
	want := []string{"eks:eks-cluster-name", "karpenter.k8s.aws/ec2nodeclass", "karpenter.sh/nodeclaim", "karpenter.sh/nodepool", "kubernetes.io/cluster/demo"}
	for _, key := range append(want, "Name", "kubernetes.io/clusters") {
		class.Spec.Tags[key] = "a"
	}
	if got := class.RestrictedTags(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
