package scenario_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

const (
	aksRef  = "{group: karpenter.azure.com, kind: AKSNodeClass, name: default}"
	kwokRef = "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}"
	aPod    = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, resources: {requests: {cpu: 1}}}]\n"
)

func aksClassOf(spec, more string) string {
	return "---\napiVersion: karpenter.azure.com/v1beta1\nkind: AKSNodeClass\nmetadata: {name: default}\nspec: {" + spec + "}\n" + more
}

func TestAClassOfAzureInAFileShapesItsCatalog(t *testing.T) {
	t.Parallel()
	const d4, arm, gen1, amd = "Standard_D4ads_v5", "Standard_D4pds_v5", "Standard_D2_v2", "Standard_NV4ads_V710_v5"
	dns := func(mode string) string {
		zone := func(name, to string) string {
			return "{zone: " + name + ", forwardDestination: " + to + ", queryLogging: Error, protocol: PreferUDP, forwardPolicy: Random, maxConcurrent: 9, cacheDuration: 1h, serveStaleDuration: 1h, serveStale: Immediate}"
		}
		zones := "[" + zone(".", "VnetDNS") + ", " + zone("cluster.local", "ClusterCoreDNS") + "]"
		return "localDNS: {mode: " + mode + ", vnetDNSOverrides: " + zones + ", kubeDNSOverrides: " + zones + "}"
	}
	for _, test := range []struct {
		name, spec, status, offered, not string
		resource                         corev1.ResourceName
		capacity                         string
	}{
		{"nothing", "", "", d4, amd, "ephemeral-storage", "128G"},
		{"a disk", "osDiskSizeGB: 256", "", d4, "", "ephemeral-storage", "256G"},
		{"pods", "maxPods: 60", "", d4, "", "pods", "60"},
		{"nodes of one's own", "userData: x, overhead: {kubeReserved: {cpu: 100m}}", "", "Standard_E16-4ads_v5", "", "cpu", "4"},
		{"GPUs without a driver", "gpu: {mode: None}", "", amd, "", "cpu", "4"},
		{"encryption at host", "security: {encryptionAtHost: true}", "", d4, gen1, "cpu", "4"},
		{"trusted launch", "security: {trustedLaunch: {secureBoot: true}}", "", d4, gen1, "cpu", "4"},
		{"artifacts that are streamed", "artifactStreaming: {enabled: true}", "", d4, arm, "cpu", "4"},
		{"local DNS", dns("Required"), "", d4, "Standard_D2ads_v5", "cpu", "4"},
		{"local DNS where it turned out to be on", dns("Preferred"), "status: {localDNSState: Enabled}\n", d4, "Standard_D2ads_v5", "cpu", "4"},
		{"an image", "", "status: {images: [{id: x, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: karpenter.azure.com/sku-hyperv-generation, operator: In, values: [\"2\"]}]}]}\n", d4, arm, "cpu", "4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := readBack(t, []byte(aksClassOf(test.spec, test.status)+poolOf("p", aksRef, "")))
			it := typeOf(t, r, test.offered)
			if it == nil {
				t.Fatalf("%s is not offered: %q", test.offered, r.Snapshot.Classes[0].Problem)
			}
			if has := it.Capacity[test.resource]; has.String() != test.capacity {
				t.Errorf("%s: %s, want %s", test.resource, has.String(), test.capacity)
			}
			if test.not != "" && typeOf(t, r, test.not) != nil {
				t.Errorf("%s is offered", test.not)
			}
		})
	}
	own := typeOf(t, readBack(t, []byte(aksClassOf("userData: x, overhead: {kubeReserved: {cpu: 100m}, evictionHard: {memory.available: 200Mi}}", "")+poolOf("p", aksRef, ""))), d4)
	if cpu, memory := own.Overhead[corev1.ResourceCPU], own.Overhead[corev1.ResourceMemory]; cpu.String() != "100m" || memory.String() != "200Mi" {
		t.Errorf("a node of one's own keeps %s of cpu and %s of memory back, want 100m and 200Mi", cpu.String(), memory.String())
	}
	linux := readBack(t, []byte(aksClassOf("imageFamily: AzureLinux, fipsMode: FIPS", "")+poolOf("p", aksRef, "")))
	labels := typeOf(t, linux, d4).Labels
	if got := labels["kubernetes.azure.com/os-sku"]; !slices.Equal(got, []string{"AzureLinux"}) || !slices.Equal(labels["kubernetes.azure.com/fips_enabled"], []string{"true"}) {
		t.Errorf("labels %v", labels)
	}
}

func TestMachinesOfAzureAreInTheRegionThatFilesName(t *testing.T) {
	t.Parallel()
	zone := func(operator, values string) string {
		return "{key: topology.kubernetes.io/zone, operator: " + operator + ", values: [" + values + "]}"
	}
	usual := func(region string) string { return region + "-1 " + region + "-2 " + region + "-3" }
	for _, test := range []struct{ name, text, region, want string }{
		{"nothing is named", poolOf("p", aksRef, ""), "", usual("eastus")},
		{"a flag", poolOf("p", aksRef, ""), "westeurope", usual("westeurope")},
		{"another cloud's flag", poolOf("p", aksRef, ""), "eu-west-1", usual("eastus")},
		{"a pool", poolOf("p", aksRef, zone("In", "westeurope-2")), "", usual("westeurope")},
		{"what a pool does not want", poolOf("p", aksRef, zone("NotIn", "uksouth-1")), "", usual("uksouth")},
		{"a region", poolOf("p", aksRef, "{key: topology.kubernetes.io/region, operator: In, values: [eastus2]}"), "", usual("eastus2")},
		{"a volume", poolOf("p", aksRef, "") + "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec:\n  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.disk.csi.azure.com/zone, operator: In, values: [northeurope-3]}]}]}}\n", "", usual("northeurope")},
		{"no zone", poolOf("p", aksRef, zone("In", `"0"`)), "", "0 " + usual("eastus")},
		{"no zone, in a pod", poolOf("p", aksRef, "") + aPod + "  nodeSelector: {karpenter.azure.com/placement-scope: regional}\n", "", "0 " + usual("eastus")},
		{"zones only", poolOf("p", aksRef, "{key: karpenter.azure.com/placement-scope, operator: NotIn, values: [regional]}"), "", usual("eastus")},
		{"a node in no zone", poolOf("p", aksRef, "") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {topology.kubernetes.io/zone: \"0\", topology.kubernetes.io/region: westus}}\n", "", "0 " + usual("westus")},
		{"the simulated cloud, asked for Azure's labels", poolOf("p", kwokRef, "{key: karpenter.azure.com/sku-family, operator: In, values: [D]}"), "", usual("eastus")},
		{"EC2's zones", poolOf("p", aksRef, "") + poolOf("q", ec2Ref, zone("In", "eu-west-1a")), "", usual("eastus")},
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
			for _, o := range typeOf(t, r, "Standard_D4s_v5").Offerings {
				zones = append(zones, o.Zone)
			}
			slices.Sort(zones)
			zones = slices.Compact(zones)
			if got := strings.Join(zones, " "); got != test.want {
				t.Errorf("offered in\n%s, want\n%s", got, test.want)
			}
			notes := strings.Join(r.Notes, "\n")
			if said, abroad := strings.Contains(notes, "are those of eastus"), !slices.Contains(zones, "eastus-1"); said != abroad {
				t.Errorf("whose prices they are is said: %v: %q", said, r.Notes)
			}
			if said := strings.Contains(notes, "eu-west-1 is no region of Azure"); said != (test.region == "eu-west-1") {
				t.Errorf("notes %q", r.Notes)
			}
		})
	}
}

func TestSizesThatAreNotOfferedAreNotedWhereTheyAreNamed(t *testing.T) {
	t.Parallel()
	const pod = aPod + "  nodeSelector: {node.kubernetes.io/instance-type: Standard_E16-4ads_v5}\n"
	r := readBack(t, []byte(poolOf("p", aksRef, "{key: karpenter.azure.com/sku-name, operator: In, values: [Standard_D2s_v5, Standard_G3, Standard_X1]}, {key: karpenter.azure.com/sku-storage-ephemeralos-maxsize, operator: Gt, values: [\"63\"]}")+pod))
	for _, want := range []string{
		"AKSNodeClass default does not offer Standard_E16-4ads_v5 (its number of cores is constrained), Standard_G3 (no price of it is known in eastus), Standard_X1 (no figures of it are built in)",
		"what sizes of Azure have of label karpenter.azure.com/sku-storage-ephemeralos-maxsize is not known: all are taken to have what NodePool p asks for",
	} {
		if !slices.Contains(r.Notes, want) {
			t.Errorf("notes %q, want\n%s", r.Notes, want)
		}
	}
}

// Machines without a zone are a zone for spreading pods only if an object requests such machines.
func TestPodsSpreadOverTheZonesOfAzure(t *testing.T) {
	t.Parallel()
	const spread = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 6\n  selector: {matchLabels: {app: web}}\n  template:\n" +
		"    metadata: {labels: {app: web}}\n    spec:\n      topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]\n" +
		"      containers: [{name: c, resources: {requests: {cpu: 1}}}]\n"
	r := readBack(t, []byte(aksClassOf("", "")+poolOf("p", aksRef, "{key: karpenter.azure.com/sku-cpu, operator: Lt, values: [\"9\"]}, {key: karpenter.azure.com/sku-gpu-count, operator: In, values: [\"0\"]}")+spread))
	plan := provisioning.Plan(r.Snapshot, r.Options, nil)
	pods := map[string]int{}
	for _, l := range plan.Launches {
		pods[l.Offerings[0].Zone] += len(l.Pods)
	}
	if len(plan.Unplaced) != 0 || len(pods) != 3 || pods["eastus-1"] != 2 || pods["eastus-2"] != 2 || pods["eastus-3"] != 2 {
		t.Errorf("pods by zone %v, refused %v", pods, plan.Unplaced)
	}
}
