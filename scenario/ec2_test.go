package scenario_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// poolOf returns a pool of a class with requirements, in the flow style of YAML.
func poolOf(name, class, requirements string) string {
	return "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: " + name + "}\nspec:\n  template:\n    spec:\n" +
		"      nodeClassRef: " + class + "\n      requirements: [" + requirements + "]\n"
}

const (
	ec2Ref  = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
	autoRef = "{group: eks.amazonaws.com, kind: NodeClass, name: default}"
)

func ec2ClassOf(alias, more string) string {
	return "---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  amiSelectorTerms: [{alias: " + alias + "}]\n" +
		"  role: nodes\n  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n" + more
}

func typeOf(t *testing.T, r *scenario.Reading, name string) *engine.InstanceType {
	t.Helper()
	if len(r.Snapshot.Classes) == 0 {
		t.Fatal("no class")
	}
	for i := range r.Snapshot.Classes[0].InstanceTypes {
		if it := &r.Snapshot.Classes[0].InstanceTypes[i]; it.Name == name {
			return it
		}
	}
	return nil
}

func TestAClassInAFileShapesItsCatalog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, alias, more, kind, resource, capacity, overhead string }{
		{"the default disk", "al2023@latest", "", "m5.xlarge", "ephemeral-storage", "20Gi", "3Gi"},
		{"a root volume", "al2023@latest", "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi}}]\n", "m5.xlarge", "ephemeral-storage", "100Gi", "11Gi"},
		{"Bottlerocket's data volume", "bottlerocket@latest", "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 100Gi}}]\n", "m5.xlarge", "ephemeral-storage", "100Gi", ""},
		{"shared GPUs", "bottlerocket@latest", "  userData: |\n    [settings.kubelet-device-plugins.nvidia]\n    device-sharing-strategy = \"time-slicing\"\n    time-slicing = {replicas = 4}\n", "g4dn.xlarge", "nvidia.com/gpu.shared", "4", ""},
		{"local disks", "al2023@latest", "  instanceStorePolicy: RAID0\n", "m5d.xlarge", "ephemeral-storage", "150G", ""},
		{"no local disks", "al2023@latest", "  instanceStorePolicy: RAID0\n", "m5.xlarge", "ephemeral-storage", "20Gi", ""},
		{"maxPods", "al2023@latest", "  kubelet: {maxPods: 20}\n", "m5.xlarge", "pods", "20", ""},
		{"podsPerCore", "al2023@latest", "  kubelet: {podsPerCore: 3}\n", "m5.xlarge", "pods", "12", ""},
		{"an expression", "al2023@latest", "  kubelet: {maxPods: vcpus * 5}\n", "m5.xlarge", "pods", "20", ""},
		{"reserved", "al2023@latest", "  kubelet: {kubeReserved: {memory: 1Gi}, systemReserved: {memory: 1Gi}, evictionHard: {memory.available: 1Gi}}\n", "m5.xlarge", "memory", "", "3Gi"},
		{"Windows", "windows2022@latest", "", "m5.xlarge", "vpc.amazonaws.com/PrivateIPv4Address", "14", ""},
		{"Windows' disk", "windows2022@latest", "", "m5.xlarge", "ephemeral-storage", "50Gi", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			it := typeOf(t, readBack(t, []byte(ec2ClassOf(test.alias, test.more)+poolOf("p", ec2Ref, ""))), test.kind)
			if it == nil {
				t.Fatalf("%s is not offered", test.kind)
			}
			has, kept := it.Capacity[corev1.ResourceName(test.resource)], it.Overhead[corev1.ResourceName(test.resource)]
			if test.capacity != "" && has.String() != test.capacity || test.overhead != "" && kept.String() != test.overhead {
				t.Errorf("%s: %s, %s kept back; want %s, %s", test.resource, has.String(), kept.String(), test.capacity, test.overhead)
			}
		})
	}
}

func TestImagesInAFileSayWhichTypesRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		alias, kind string
		offered     bool
	}{
		{"al2023@latest", "a1.large", false}, {"bottlerocket@latest", "a1.large", true}, {"windows2022@latest", "m7g.large", false},
		{"windows2022@latest", "m5.large", true}, {"al2023@latest", "g6f.large", true}, {"al2@latest", "g5g.xlarge", false},
	} {
		r := readBack(t, []byte(ec2ClassOf(test.alias, "")+poolOf("p", ec2Ref, "{key: node.kubernetes.io/instance-type, operator: In, values: ["+test.kind+"]}")))
		if got := typeOf(t, r, test.kind) != nil; got != test.offered {
			t.Errorf("%s: %s is offered: %v", test.alias, test.kind, got)
		}
		if said := strings.Contains(strings.Join(r.Notes, "\n"), "does not offer "+test.kind+" (no image of the class runs on it)"); said == test.offered {
			t.Errorf("%s: %s: notes %q", test.alias, test.kind, r.Notes)
		}
	}
}

func TestTypesThatAreNotOfferedAreNotedWhereTheyAreNamed(t *testing.T) {
	t.Parallel()
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}], nodeSelector: {node.kubernetes.io/instance-type: dl1.24xlarge}}\n"
	r := readBack(t, []byte(poolOf("p", ec2Ref, "{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, p5e, g6f]}")+pod))
	const want = "EC2NodeClass default does not offer dl1.24xlarge (no figures of it are built in), p5e (no price of it is known in us-east-1)"
	if !slices.Contains(r.Notes, want) {
		t.Errorf("notes %q, want\n%s", r.Notes, want)
	}
}

func TestAKubeletThatTheProviderWouldRefuseIsRefusedInAFile(t *testing.T) {
	t.Parallel()
	r := readBack(t, []byte(ec2ClassOf("bottlerocket@latest", "  kubelet: {podsPerCore: 3}\n")+poolOf("p", ec2Ref, "")))
	if got := r.Snapshot.Classes[0].Problem; !strings.Contains(got, "spec.kubelet.podsPerCore cannot be set with amiFamily Bottlerocket") {
		t.Errorf("problem %q", got)
	}
}

func TestZonesThatFilesNameAreOffered(t *testing.T) {
	t.Parallel()
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c}]\n"
	zone := func(operator, values string) string {
		return "{key: topology.kubernetes.io/zone, operator: " + operator + ", values: [" + values + "]}"
	}
	for _, test := range []struct{ name, text, region, want string }{
		{"nothing is named", poolOf("p", ec2Ref, ""), "", "us-east-1a us-east-1b us-east-1c"},
		{"a flag", poolOf("p", ec2Ref, ""), "eu-west-1", "eu-west-1a eu-west-1b eu-west-1c"},
		{"a pool", poolOf("p", ec2Ref, zone("In", "ap-northeast-2a, ap-northeast-2d")), "", "ap-northeast-2a ap-northeast-2b ap-northeast-2c ap-northeast-2d"},
		{"what a pool does not want", poolOf("p", ec2Ref, zone("NotIn", "eu-west-3c")), "", "eu-west-3a eu-west-3b eu-west-3c"},
		{"a region", poolOf("p", ec2Ref, "{key: topology.kubernetes.io/region, operator: In, values: [sa-east-1]}"), "", "sa-east-1a sa-east-1b sa-east-1c"},
		{"China", poolOf("p", ec2Ref, zone("In", "cn-northwest-1a")), "", "cn-northwest-1a cn-northwest-1b cn-northwest-1c"},
		{"the government's", poolOf("p", ec2Ref, zone("In", "us-gov-west-1b")), "", "us-gov-west-1a us-gov-west-1b us-gov-west-1c"},
		{"a local zone", poolOf("p", ec2Ref, zone("In", "us-west-2-lax-1a")), "", "us-west-2-lax-1a us-west-2a us-west-2b us-west-2c"},
		{"two regions", poolOf("p", ec2Ref, zone("In", "eu-west-1a")) + poolOf("q", ec2Ref, zone("In", "us-east-1f")), "", "eu-west-1a eu-west-1b eu-west-1c us-east-1a us-east-1b us-east-1c us-east-1f"},
		{"the label of a volume", poolOf("p", ec2Ref, "") + "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v, labels: {topology.kubernetes.io/zone: us-east-1d__us-east-1f}}\n", "", "us-east-1a us-east-1b us-east-1c us-east-1d us-east-1f"},
		{"a pod", poolOf("p", ec2Ref, "") + pod + "  nodeSelector: {topology.kubernetes.io/zone: eu-north-1a}\n", "", "eu-north-1a eu-north-1b eu-north-1c"},
		{"a pod's affinity", poolOf("p", ec2Ref, "") + pod + "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" + zone("In", "eu-north-1a") + "]}]}}}\n", "", "eu-north-1a eu-north-1b eu-north-1c"},
		{"a volume", poolOf("p", ec2Ref, "") + "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec:\n  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [eu-north-1b]}]}]}}\n", "", "eu-north-1a eu-north-1b eu-north-1c"},
		{"a node", poolOf("p", ec2Ref, "") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nspec: {providerID: \"aws:///eu-north-1b/i-1\"}\n", "", "eu-north-1a eu-north-1b eu-north-1c"},
		{"a storage class", poolOf("p", ec2Ref, "") + "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: ebs.csi.aws.com\nallowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [eu-north-1c]}]}]\n", "", "eu-north-1a eu-north-1b eu-north-1c"},
		{"the class's subnets", ec2ClassOf("al2023@latest", "status: {subnets: [{id: subnet-1, zone: eu-south-1b, zoneID: eus1-az2}]}\n") + poolOf("p", ec2Ref, ""), "", "eu-south-1b=eus1-az2"},
		{"an ID", poolOf("p", ec2Ref, "{key: topology.k8s.aws/zone-id, operator: In, values: [apne2-az4]}"), "", "ap-northeast-2a=apne2-az1 ap-northeast-2b=apne2-az2 ap-northeast-2c=apne2-az3 ap-northeast-2d=apne2-az4"},
		{"zones and their IDs", poolOf("p", ec2Ref, zone("In", "eu-west-1a, eu-west-1b")+", {key: topology.k8s.aws/zone-id, operator: In, values: [euw1-az3, euw1-az1]}"), "", "eu-west-1a=euw1-az3 eu-west-1b=euw1-az1 eu-west-1c"},
		{"another cloud's", poolOf("p", ec2Ref, zone("In", "us-central1-a")), "", "us-east-1a us-east-1b us-east-1c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			documents, err := scenario.Documents(scenario.Source{Name: "x.yaml", Data: []byte(test.text)})
			if err != nil {
				t.Fatal(err)
			}
			r, err := scenario.Read(scenario.Input{Documents: documents, Region: test.region})
			if err != nil {
				t.Fatal(err)
			}
			var zones []string
			for _, o := range typeOf(t, r, "m5.large").Offerings {
				z := o.Zone
				if id := o.Labels["topology.k8s.aws/zone-id"]; id != "" {
					z += "=" + id
				}
				zones = append(zones, z)
			}
			zones = slices.Compact(zones)
			if got := strings.Join(zones, " "); got != test.want {
				t.Errorf("offered in\n%s, want\n%s", got, test.want)
			}
			said := strings.Count(strings.Join(r.Notes, "\n"), "are those of us-east-1")
			abroad := slices.ContainsFunc(zones, func(z string) bool { return !strings.HasPrefix(z, "us-east-1") })
			if known := strings.Contains(test.text, "subnets:"); said != 1 && abroad && !known || said != 0 && !abroad {
				t.Errorf("whose prices they are is said %d times: %q", said, r.Notes)
			}
		})
	}
}

func TestManifestsForAutoModeAreUnderstood(t *testing.T) {
	t.Parallel()
	const class = "---\napiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: default}\nspec: {role: nodes, ephemeralStorage: {size: 160Gi}}\n"
	pool := poolOf("p", autoRef, `{key: eks.amazonaws.com/instance-category, operator: In, values: [m]}, {key: eks.amazonaws.com/instance-cpu, operator: In, values: ["8"]}`)
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  nodeSelector: {eks.amazonaws.com/compute-type: auto}\n" +
		"  containers: [{name: c, resources: {requests: {cpu: 1, ephemeral-storage: 100Gi}}}]\n"
	r := readBack(t, []byte(class+pool+pod))
	plan := provisioning.Plan(r.Snapshot, r.Options, nil)
	if len(plan.Launches) != 1 || len(plan.Unplaced) != 0 {
		t.Fatalf("%d launches, refused %v", len(plan.Launches), plan.Unplaced)
	}
	for _, it := range r.Snapshot.Classes[0].InstanceTypes {
		if strings.HasSuffix(it.Name, ".nano") || strings.HasSuffix(it.Name, ".small") || slices.Equal(it.Labels["eks.amazonaws.com/instance-cpu"], []string{"1"}) {
			t.Errorf("%s is offered", it.Name)
		}
		for key := range it.Labels {
			if strings.HasPrefix(key, "karpenter.k8s.aws/") {
				t.Fatalf("%s is labelled %s", it.Name, key)
			}
		}
	}
	if gpu := typeOf(t, r, "g5.xlarge"); gpu == nil || gpu.Labels["eks.amazonaws.com/instance-gpu-name"][0] != "a10g" {
		t.Errorf("g5.xlarge is %v", gpu)
	}
	if wrong := readBack(t, []byte(strings.Replace(class, "160Gi", "much", 1)+pool)).Snapshot.Classes[0].Problem; !strings.Contains(wrong, "spec.ephemeralStorage.size is much") {
		t.Errorf("problem %q", wrong)
	}
}

// The traits of the class in the files are compared with the machines' properties.
func TestMachinesOfAClassInAFileDriftFromIt(t *testing.T) {
	t.Parallel()
	class := strings.Replace(ec2ClassOf("al2023@latest", `status:
  amis: [{id: ami-new, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]
  securityGroups: [{id: sg-2}, {id: sg-1}]
  subnets: [{id: subnet-1, zone: us-east-1a, zoneID: use1-az1}]
`), "metadata: {name: default}", `metadata: {name: default, annotations: {karpenter.k8s.aws/ec2nodeclass-hash: "2", karpenter.k8s.aws/ec2nodeclass-hash-version: v}}`, 1)
	claim := func(annotations, image string) string {
		return "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c, creationTimestamp: 2026-01-01T00:00:00Z, labels: {karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-east-1a}, annotations: {" + annotations + "}}\n" +
			"spec: {requirements: [], nodeClassRef: " + ec2Ref + "}\nstatus: {providerID: 'aws:///us-east-1a/i-1', imageID: " + image + "}\n"
	}
	for _, test := range []struct{ annotations, image, want string }{
		{"", "ami-new", ""},
		{"", "ami-old", "AMIDrift"},
		{`karpenter.k8s.aws/ec2nodeclass-hash: "2", karpenter.k8s.aws/ec2nodeclass-hash-version: v`, "ami-new", ""},
		{`karpenter.k8s.aws/ec2nodeclass-hash: "1", karpenter.k8s.aws/ec2nodeclass-hash-version: v`, "ami-new", "NodeClassDrift"},
		{`karpenter.k8s.aws/ec2nodeclass-hash: "1", karpenter.k8s.aws/ec2nodeclass-hash-version: v0`, "ami-new", ""},
		{awsSecurityGroups + ": 'sg-1,sg-2'", "ami-new", ""},
		{awsSecurityGroups + ": sg-1", "ami-new", "SecurityGroupDrift"},
		{awsSubnet + ": subnet-1", "ami-new", ""},
		{awsSubnet + ": subnet-0", "ami-new", "SubnetDrift"},
	} {
		r := readBack(t, []byte(class+poolOf("p", ec2Ref, "")+claim(test.annotations, test.image)))
		fresh, _ := lifecycle.Refresh(r.Snapshot)
		got := ""
		if c := v1.GetCondition(fresh.NodeClaims[0], v1.ConditionDrifted); c != nil {
			got = c.Reason
		}
		if got != test.want {
			t.Errorf("{%s}, image %s: it has drifted as %q, want %q", test.annotations, test.image, got, test.want)
		}
	}
}

const (
	awsSecurityGroups = awsv1.SecurityGroupsAnnotationKey
	awsSubnet         = awsv1.SubnetAnnotationKey
)

func TestANoteSaysWhatAClassWithoutStatusLeavesUnknown(t *testing.T) {
	t.Parallel()
	capacity := func(operator, values string) string {
		return poolOf("p", ec2Ref, "{key: karpenter.sh/capacity-type, operator: "+operator+", values: ["+values+"]}")
	}
	const (
		terms  = "  capacityReservationSelectorTerms: [{tags: {a: b}}]\n"
		status = "status: {capacityReservations: [{id: cr-1, availabilityZone: us-east-1a, instanceMatchCriteria: open, instanceType: m5.large, ownerID: '123456789012'}]}\n"
		none   = "EC2NodeClass default: no status with its capacity reservations is in the files, so no reserved capacity is planned: "
		left   = "EC2NodeClass default: how many machines are left of the capacity reservations in its status, 1 in all, is not in the files, so no reserved capacity is planned: "
		images = "EC2NodeClass default: no status with its images is in the files: they are taken to run on every instance type"
	)
	selected := strings.Replace(ec2ClassOf("al2023@latest", "  amiFamily: AL2023\n"), "alias: al2023@latest", "tags: {a: b}", 1)
	for _, test := range []struct{ name, objects, reserved, images string }{
		{"a pool that asks for it", ec2ClassOf("al2023@latest", "") + capacity("In", "reserved, on-demand"), none, ""},
		{"a pool whose class is not there", capacity("In", "reserved"), none, ""},
		{"a class that selects some", ec2ClassOf("al2023@latest", terms) + poolOf("p", ec2Ref, ""), none, ""},
		{"a pool that wants none", ec2ClassOf("al2023@latest", terms) + capacity("In", "spot"), "", ""},
		{"a pool that excludes it", ec2ClassOf("al2023@latest", terms) + capacity("NotIn", "reserved"), "", ""},
		{"nobody asks", ec2ClassOf("al2023@latest", "") + poolOf("p", ec2Ref, ""), "", ""},
		{"a status", ec2ClassOf("al2023@latest", terms+status) + capacity("In", "reserved"), left, ""},
		{"images without an alias", selected + poolOf("p", ec2Ref, ""), "", images},
		{"images of a status", selected + "status: {amis: [{id: ami-1, name: ami, requirements: []}]}\n" + poolOf("p", ec2Ref, ""), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			notes := strings.Join(readBack(t, []byte(test.objects)).Notes, "\n")
			if strings.Contains(notes, "reserved capacity is planned") != (test.reserved != "") || !strings.Contains(notes, test.reserved) ||
				strings.Contains(notes, "its images") != (test.images != "") || !strings.Contains(notes, test.images) {
				t.Errorf("said:\n%s", notes)
			}
		})
	}
}
