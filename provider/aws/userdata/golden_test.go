package userdata_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/provider/aws/userdata"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out to testdata")

// node returns an ordinary machine of a cluster.
func node(family userdata.Family) userdata.Input {
	return userdata.Input{
		Family:      family,
		ClusterName: "demo", Endpoint: "https://demo.example", CABundle: "Y2EtYnVuZGxl", ServiceCIDR: "10.100.0.0/16", KubeDNS: "10.100.0.10",
		Labels: userdata.LabelsFor(family, map[string]string{
			"team": "a", "karpenter.sh/nodepool": "general", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.large",
		}, "spot"),
		Taints:  userdata.TaintsFor([]corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}, nil),
		MaxPods: 29,
	}
}

func kubelet() map[string]any {
	return map[string]any{
		"clusterDNS":                  []any{"10.0.0.10"},
		"maxPods":                     "min(max_pods, 30)",
		"podsPerCore":                 10,
		"systemReserved":              map[string]any{"cpu": "100m", "memory": "100Mi"},
		"kubeReserved":                map[string]any{"cpu": "80m", "memory": "893Mi", "ephemeral-storage": "1Gi", "pid": "1000"},
		"evictionHard":                map[string]any{"memory.available": "5%", "nodefs.available": "10%"},
		"evictionSoft":                map[string]any{"memory.available": "500Mi", "nodefs.available": "15%"},
		"evictionSoftGracePeriod":     map[string]any{"memory.available": "1m", "nodefs.available": "1h30m"},
		"evictionMaxPodGracePeriod":   60,
		"imageGCHighThresholdPercent": 85,
		"imageGCLowThresholdPercent":  80,
		"cpuCFSQuota":                 false,
	}
}

const (
	script  = "#!/bin/bash\necho 'a: b' # looks like YAML\n"
	archive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"
X-Note: kept where the reader understands it

#!/bin/bash
echo first
--BOUNDARY
Content-Type: text/cloud-config
Content-Transfer-Encoding: base64

I2Nsb3VkLWNvbmZpZwpwYWNrYWdlczog
W2h0b3BdCg==
--BOUNDARY--
`
	nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 5, shutdownGracePeriod: 30s}
`
	settings = `# kept tables, overruled values, a key with a typing mistake
[settings.host-containers.admin]
enabled = true

[settings.kubernetes]
cluster-name = "other"
max-pods = 5
allowed-unsafe-sysctls = ["net.core.somaxconn"]
container-log-max-filez = 3

[settings.kubernetes.node-labels]
own = "yes"
team = "b"

[settings.kubernetes.node-taints]
gone = ["x:NoSchedule"]

[settings.kubernetes.memory-manager-reserved-memory.0]
enabled = true
memory = "1024Mi"
hugepages-2Mi = "512Mi"

[settings.bootstrap-commands.010-mine]
commands = [["apiclient", "set", "motd=hello"]]
mode = "once"
essential = false
`
)

func TestTextsOfAllFamilies(t *testing.T) {
	t.Parallel()
	with := func(in userdata.Input, change func(*userdata.Input)) userdata.Input {
		change(&in)
		return in
	}
	cases := map[string]userdata.Input{}
	for _, family := range []userdata.Family{userdata.AL2, userdata.AL2023, userdata.Bottlerocket, userdata.Windows2019, userdata.Windows2022, userdata.Windows2025, userdata.Custom} {
		own := map[userdata.Family]string{userdata.AL2: archive, userdata.AL2023: archive, userdata.Bottlerocket: settings, userdata.Custom: script}[family]
		if strings.HasPrefix(string(family), "Windows") {
			own = `Write-Host "hello"`
		}
		cases[string(family)+"_plain"] = node(family)
		cases[string(family)+"_custom"] = with(node(family), func(in *userdata.Input) { in.Text = own })
		cases[string(family)+"_kubelet"] = with(node(family), func(in *userdata.Input) { in.Kubelet = kubelet() })
	}
	cases["AL2_script"] = with(node(userdata.AL2), func(in *userdata.Input) { in.Text = script })
	cases["AL2_ipv6_raid0"] = with(node(userdata.AL2), func(in *userdata.Input) { in.KubeDNS, in.RAID0 = "fd00::a", true })
	cases["AL2023_script"] = with(node(userdata.AL2023), func(in *userdata.Input) { in.Text = script })
	cases["AL2023_nodeconfig"] = with(node(userdata.AL2023), func(in *userdata.Input) { in.Text = nodeConfig })
	cases["AL2023_kubelet_passed_on"] = with(node(userdata.AL2023), func(in *userdata.Input) {
		in.RAID0 = true
		in.Kubelet = map[string]any{
			"singleProcessOOMKill": true, "maxParallelImagePulls": 4, "memorySwap": map[string]any{"swapBehavior": "LimitedSwap"},
			"registerWithTaints": []any{map[string]any{"key": "overruled", "effect": "NoSchedule"}},
		}
	})
	cases["Bottlerocket_raid0_1.45"] = with(node(userdata.Bottlerocket), func(in *userdata.Input) {
		in.RAID0, in.BottlerocketVersion, in.Text = true, "v1.45.0", settings
	})
	cases["Bottlerocket_raid0_1.46"] = with(node(userdata.Bottlerocket), func(in *userdata.Input) { in.RAID0, in.BottlerocketVersion = true, "1.46.0" })
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := userdata.Render(in)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", name+".golden"), out.Text)
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s holds something else than came out:\n%s", file, got)
	}
}
