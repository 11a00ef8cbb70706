package bootstrap_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/bootstrap"
)

const token = "abcdef.0123456789abcdef"

// input returns a machine in an overlay network with Cilium, after change.
func input(change func(*bootstrap.Input)) bootstrap.Input {
	in := bootstrap.Input{
		Spec: &azurev1beta1.AKSNodeClassSpec{ImageFamily: "Ubuntu"}, KubernetesVersion: "1.34.2",
		Endpoint: "https://demo-dns-0a1b2c3d.hcp.eastus.azmk8s.io:443", CABundle: "Q0E=", BootstrapToken: token,
		Tenant: "tenant", Subscription: "subscription", Location: "eastus", NodeResourceGroup: "MC_demo", Cluster: "MC_demo",
		SubnetID: "/subscriptions/subscription/resourceGroups/networks/providers/Microsoft.Network/virtualNetworks/net/subnets/machines",
		Number:   "12345678", NetworkGUID: "00000000-0000-0000-0000-000000000009", NetworkPlugin: "azure", NetworkMode: "overlay", NetworkDataplane: "cilium",
		NetworkPolicy: "cilium", DNSServiceIP: "10.0.0.10", KubeletIdentity: "client", AdminUsername: "azureuser",
		Size: "Standard_D4s_v5", Architecture: "amd64", Family: "Ubuntu2404", MaxPods: 250,
		KubeReserved: corev1.ResourceList{"cpu": resource.MustParse("140m"), "memory": resource.MustParse("2662Mi")},
		Labels: map[string]string{
			"karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "spot", "app": "web", "kubernetes.io/arch": "amd64", "k8s.io/a": "b",
			"node-restriction.kubernetes.io/a": "b", "topology.kubernetes.io/zone": "eastus-1", "node.kubernetes.io/instance-type": "Standard_D4s_v5",
			"karpenter.azure.com/sku-hyperv-generation": "2", "kubernetes.azure.com/mode": "system",
		},
		Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "booting", Effect: "NoExecute"}},
	}
	if change != nil {
		change(&in)
	}
	return in
}

// variables returns the variables that the script sets for the image's scripts.
func variables(t *testing.T, in bootstrap.Input) map[string]string {
	t.Helper()
	encoded, err := bootstrap.Script(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	script, found := strings.CutSuffix(string(text), "/usr/bin/nohup /bin/bash /opt/azure/containers/provision_start.sh >>/var/log/azure/cluster-provision-cse-output.log 2>&1\n")
	if !found || !strings.HasPrefix(script, "#!/bin/bash\n") {
		t.Fatalf("this is not a script that runs the image's: %s", text)
	}
	folder := t.TempDir()
	script = strings.ReplaceAll(script, "/var/log/azure", folder)
	file := filepath.Join(folder, "script")
	if err := os.WriteFile(file, []byte(script+"env -0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("bash", file)
	shell.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("bash: %v: %s", err, out)
	}
	got := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		name, value, _ := strings.Cut(line, "=")
		got[name] = value
	}
	return got
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if is, there := got[name]; !there || is != value {
			t.Errorf("%s is %q (there: %t), want %q", name, is, there, value)
		}
	}
}

func TestTheImagesScriptsFindWhatTheyRead(t *testing.T) {
	t.Parallel()
	got := variables(t, input(nil))
	expect(t, got, map[string]string{
		"API_SERVER_NAME": "demo-dns-0a1b2c3d.hcp.eastus.azmk8s.io", "KUBE_CA_CRT": "Q0E=", "TLS_BOOTSTRAP_TOKEN": token, "ENABLE_TLS_BOOTSTRAPPING": "true",
		"APISERVER_PUBLIC_KEY": "", "KUBERNETES_VERSION": "1.34.2", "ADMINUSER": "azureuser", "TENANT_ID": "tenant", "SUBSCRIPTION_ID": "subscription",
		"RESOURCE_GROUP": "MC_demo", "LOCATION": "eastus", "VM_TYPE": "standard", "SUBNET": "machines", "VIRTUAL_NETWORK": "net",
		"VIRTUAL_NETWORK_RESOURCE_GROUP": "networks", "NETWORK_SECURITY_GROUP": "aks-agentpool-12345678-nsg", "ROUTE_TABLE": "aks-agentpool-12345678-routetable",
		"USER_ASSIGNED_IDENTITY_ID": "client", "SERVICE_PRINCIPAL_CLIENT_ID": "msi", "NETWORK_PLUGIN": "none", "NETWORK_POLICY": "cilium", "CSE_TIMEOUT": "15m",
		"TARGET_CLOUD": "AzurePublicCloud", "SWAP_FILE_SIZE_MB": "", "SHOULD_CONFIG_SWAP_FILE": "false", "SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE": "false",
	})
	flags := " " + got["KUBELET_FLAGS"] + " "
	for name, value := range bootstrap.KubeletFlags(input(nil)) {
		if !strings.Contains(flags, " --"+name+"="+value+" ") {
			t.Errorf("--%s=%s is not in %s", name, value, flags)
		}
	}
	if n := len(strings.Fields(flags)); n != len(bootstrap.KubeletFlags(input(nil))) {
		t.Errorf("%d words for %d flags", n, len(bootstrap.KubeletFlags(input(nil))))
	}
	if labels := strings.Split(got["KUBELET_NODE_LABELS"], ","); len(labels) != len(bootstrap.NodeLabels(input(nil))) {
		t.Errorf("labels %v", labels)
	}
	if n := len(got); n < 120 {
		t.Errorf("%d variables", n)
	}
}

func TestAScriptIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	want, err := bootstrap.Script(input(nil))
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		got, _ := bootstrap.Script(input(func(in *bootstrap.Input) {
			in.Taints = []corev1.Taint{in.Taints[2], in.Taints[0]} // and without the added one
		}))
		if got != want {
			t.Fatalf("got\n%s\nwant\n%s", decoded(t, got), decoded(t, want))
		}
	}
}

// The content of a value is never executed.
func TestValuesAreTextToTheShell(t *testing.T) {
	t.Parallel()
	const hostile = `a'; touch /tmp/x; echo "$(id)" ` + "`id`\n$HOME \\"
	got := variables(t, input(func(in *bootstrap.Input) { in.NodeResourceGroup, in.AdminUsername = hostile, hostile }))
	expect(t, got, map[string]string{"RESOURCE_GROUP": hostile, "ADMINUSER": hostile})
}

func TestWhatTheClassSaysOfTheSystemReachesIt(t *testing.T) {
	t.Parallel()
	got := variables(t, input(func(in *bootstrap.Input) {
		in.Spec.LinuxOSConfig = &azurev1beta1.LinuxOSConfig{
			SwapFileSize: "1500M", TransparentHugePageEnabled: "madvise", TransparentHugePageDefrag: "defer+madvise",
			Sysctls: &azurev1beta1.Sysctls{
				NetCoreSomaxconn: new(int32(5000)), VMMaxMapCount: new(int32(262144)), NetIPv4IPLocalPortRange: "1024 60999", NetIPv4TCPTwReuse: new(true), VMSwappiness: new(int32(0)),
			},
		}
	}))
	expect(t, got, map[string]string{
		"SHOULD_CONFIG_SWAP_FILE": "true", "SWAP_FILE_SIZE_MB": "1431", "SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE": "true", "THP_ENABLED": "madvise", "THP_DEFRAG": "defer+madvise",
	})
	file := "\n" + decoded(t, got["SYSCTL_CONTENT"])
	for _, line := range []string{
		"net.core.somaxconn = 5000", "vm.max_map_count = 262144", "net.ipv4.ip_local_port_range = 1024 60999", "net.ipv4.tcp_tw_reuse = 1", "vm.swappiness = 0",
		"net.ipv4.tcp_max_syn_backlog = 16384", "vm.overcommit_memory = 1", // as required by kubelets that protect the kernel's defaults
	} {
		if strings.Count(file, "\n"+line+"\n") != 1 {
			t.Errorf("%s is not once in%s", line, file)
		}
	}
	for _, one := range []azurev1beta1.LinuxOSConfig{{TransparentHugePageEnabled: "never"}, {TransparentHugePageDefrag: "defer"}} {
		got := variables(t, input(func(in *bootstrap.Input) { in.Spec.LinuxOSConfig = &one }))
		expect(t, got, map[string]string{
			"SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE": "true", "THP_ENABLED": one.TransparentHugePageEnabled, "THP_DEFRAG": one.TransparentHugePageDefrag,
		})
	}
	if got := variables(t, input(func(in *bootstrap.Input) { in.Spec.LinuxOSConfig = &azurev1beta1.LinuxOSConfig{SwapFileSize: "2048K"} })); got["SWAP_FILE_SIZE_MB"] != "2" {
		t.Errorf("2048K is %s MiB", got["SWAP_FILE_SIZE_MB"])
	}
}

func TestGPUsGetADriverUnlessTheClassWantsNone(t *testing.T) {
	t.Parallel()
	const runtime = "nvidia-container-runtime"
	gpu := func(size, mode string) map[string]string {
		return variables(t, input(func(in *bootstrap.Input) {
			in.Size, in.NVIDIA = size, true
			if mode != "" {
				in.Spec.GPU = &azurev1beta1.GPU{Mode: mode}
			}
		}))
	}
	for _, test := range []struct {
		size, mode, kind, fabric string
	}{
		{"Standard_NC24ads_A100_v4", "", "cuda", "false"},
		{"Standard_NC4as_T4_v3", "Driver", "cuda", "false"},
		{"Standard_NV36ads_A10_v5", "Driver", "grid", "false"},
		{"Standard_ND96asr_v4", "Driver", "cuda", "true"},
		{"Standard_ND96amsr_A100_v4", "Driver", "cuda", "true"},
		{"Standard_ND96isr_H100_v5", "Driver", "cuda", "true"},
	} {
		got := gpu(test.size, test.mode)
		expect(t, got, map[string]string{
			"GPU_NODE": "true", "CONFIG_GPU_DRIVER_IF_NEEDED": "true", "GPU_DRIVER_TYPE": test.kind, "GPU_NEEDS_FABRIC_MANAGER": test.fabric,
			"ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED": "false",
		})
		if got["GPU_DRIVER_VERSION"] == "" || got["GPU_IMAGE_SHA"] == "" || !strings.Contains(decoded(t, got["CONTAINERD_CONFIG_CONTENT"]), runtime) {
			t.Errorf("%s: no driver", test.size)
		}
		if strings.Contains(decoded(t, got["CONTAINERD_CONFIG_NO_GPU_CONTENT"]), runtime) {
			t.Errorf("%s: the configuration for no GPU has one", test.size)
		}
	}
	for _, got := range []map[string]string{gpu("Standard_NC24ads_A100_v4", "None"), variables(t, input(nil))} {
		expect(t, got, map[string]string{"GPU_NODE": "false", "CONFIG_GPU_DRIVER_IF_NEEDED": "false", "GPU_DRIVER_VERSION": "", "GPU_NEEDS_FABRIC_MANAGER": "false"})
		if strings.Contains(decoded(t, got["CONTAINERD_CONFIG_CONTENT"]), runtime) {
			t.Error("containerd runs containers with a driver that is not there")
		}
	}
}

func TestDownloadsFitTheVersionAndTheArchitecture(t *testing.T) {
	t.Parallel()
	const mirror = "https://acs-mirror.azureedge.net/"
	for version, want := range map[string][2]string{
		"1.29.7":  {"kubernetes/v1.29.7/binaries/kubernetes-node-linux-arm64.tar.gz", ""},
		"1.30.1":  {"kubernetes/v1.30.1/binaries/kubernetes-node-linux-arm64.tar.gz", "1.30.12"},
		"1.31.2":  {"kubernetes/v1.31.2/binaries/kubernetes-node-linux-arm64.tar.gz", "1.31.6"},
		"1.32.0":  {"kubernetes/v1.32.0/binaries/kubernetes-node-linux-arm64.tar.gz", "1.32.5"},
		"v1.33.1": {"kubernetes/v1.33.1/binaries/kubernetes-node-linux-arm64.tar.gz", "1.33.0"},
		"1.34.0":  {"", "1.33.0"},
		"1.35.0":  {"", "1.33.0"},
	} {
		got := variables(t, input(func(in *bootstrap.Input) { in.KubernetesVersion, in.Architecture = version, "arm64" }))
		if want[0] != "" {
			want[0] = mirror + want[0]
		}
		if want[1] != "" {
			want[1] = mirror + "cloud-provider-azure/v" + want[1] + "/binaries/azure-acr-credential-provider-linux-arm64-v" + want[1] + ".tar.gz"
		}
		expect(t, got, map[string]string{"KUBE_BINARY_URL": want[0], "CREDENTIAL_PROVIDER_DOWNLOAD_URL": want[1], "KUBERNETES_VERSION": strings.TrimPrefix(version, "v")})
	}
}

func TestTheNetworkPluginIsTheImagesOnlyWhereNothingElseSetsItUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		plugin, mode, dataplane, want string
		overlay, cilium               bool
	}{
		{"azure", "overlay", "cilium", "none", true, true},
		{"azure", "overlay", "azure", "none", true, false},
		{"azure", "overlay", "", "none", true, false},
		{"azure", "", "cilium", "none", false, true},
		{"azure", "", "azure", "azure", false, false},
		{"azure", "", "", "azure", false, false},
		{"none", "", "", "none", false, false},
	} {
		in := input(func(in *bootstrap.Input) {
			in.NetworkPlugin, in.NetworkMode, in.NetworkDataplane = test.plugin, test.mode, test.dataplane
		})
		if got := variables(t, in)["NETWORK_PLUGIN"]; got != test.want {
			t.Errorf("%+v: the image sets up %s", test, got)
		}
		labels := bootstrap.NodeLabels(in)
		if _, there := labels["kubernetes.azure.com/podnetwork-type"]; there != test.overlay {
			t.Errorf("%+v: %v", test, labels)
		}
		if _, there := labels["kubernetes.azure.com/ebpf-dataplane"]; there != test.cilium {
			t.Errorf("%+v: %v", test, labels)
		}
	}
}

func TestWhatWouldMakeAMachineThatNeverJoinsIsSaidBefore(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*bootstrap.Input){
		"no class is known":                         func(in *bootstrap.Input) { in.Spec = nil },
		`"x" is no version of Kubernetes`:           func(in *bootstrap.Input) { in.KubernetesVersion = "x" },
		`"2.1.0" is no version`:                     func(in *bootstrap.Input) { in.KubernetesVersion = "2.1.0" },
		"want the URL of the API server":            func(in *bootstrap.Input) { in.Endpoint = "api.example.com" },
		"images of AKS know no port but 443":        func(in *bootstrap.Input) { in.Endpoint = "https://api.example.com:6443" },
		"set CLUSTER_CA_BUNDLE":                     func(in *bootstrap.Input) { in.CABundle = "-----BEGIN" },
		"not known, or not in base64":               func(in *bootstrap.Input) { in.CABundle = "" },
		"KUBELET_BOOTSTRAP_TOKEN is not one":        func(in *bootstrap.Input) { in.BootstrapToken = "ABCDEF.secret" },
		"DNS_SERVICE_IP is \"None\"":                func(in *bootstrap.Input) { in.DNSServiceIP = "None" },
		"set VNET_GUID":                             func(in *bootstrap.Input) { in.NetworkGUID = "" },
		`no images of AKS for architecture "x64"`:   func(in *bootstrap.Input) { in.Architecture = "x64" },
		"the node would take 0 pods":                func(in *bootstrap.Input) { in.MaxPods = 0 },
		`"/a/b" is not the resource ID of a subnet`: func(in *bootstrap.Input) { in.SubnetID = "/a/b" },
		"swapFileSize is \"much\"":                  func(in *bootstrap.Input) { in.Spec.LinuxOSConfig = &azurev1beta1.LinuxOSConfig{SwapFileSize: "much"} },
		"from 101% of the disk down to 100%": func(in *bootstrap.Input) {
			in.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{ImageGCLowThresholdPercent: new(int32(100))}
		},
		"from 0% of the disk down to -1%": func(in *bootstrap.Input) {
			in.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{ImageGCHighThresholdPercent: new(int32(0))}
		},
		"label kubernetes.azure.com/network-subnet=": func(in *bootstrap.Input) { in.SubnetID += strings.Repeat("x", 64) },
		"bytes, and Azure takes 65535 at most":       func(in *bootstrap.Input) { in.AdminUsername = strings.Repeat("x", 60000) },
	} {
		in := input(change)
		script, err := bootstrap.Script(in)
		if err == nil || !strings.Contains(err.Error(), want) || script != "" {
			t.Errorf("got %v\nwant %s", err, want)
			continue
		}
		if in.BootstrapToken != "" && strings.Contains(err.Error(), in.BootstrapToken) {
			t.Errorf("%v: it holds the token", err)
		}
	}
}

func TestWhatAnImageCannotBeToldIsNamed(t *testing.T) {
	t.Parallel()
	class := &azurev1beta1.AKSNodeClass{Spec: azurev1beta1.AKSNodeClassSpec{
		LinuxOSConfig: &azurev1beta1.LinuxOSConfig{SwapFileSize: "1Gi"}, LocalDNS: &azurev1beta1.LocalDNS{Mode: "Disabled"},
		ArtifactStreaming: &azurev1beta1.ArtifactStreaming{Enabled: new(false)},
		Kubelet:           &azurev1beta1.KubeletConfiguration{FailSwapOn: new(false), CPUCFSQuotaPeriod: &metav1.Duration{Duration: time.Second}},
	}}
	if got := bootstrap.Ignored(class); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	class.Spec.LocalDNS.Mode, class.Spec.ArtifactStreaming.Enabled = "Required", new(true)
	if got := strings.Join(bootstrap.Ignored(class), " "); got != "spec.artifactStreaming spec.localDNS" {
		t.Errorf("got %s", got)
	}
	// Ignored settings are not reported as applied.
	in := input(func(in *bootstrap.Input) { in.Spec = &class.Spec })
	expect(t, bootstrap.NodeLabels(in), map[string]string{"kubernetes.azure.com/localdns-state": "disabled"})
	if value, there := bootstrap.NodeLabels(in)["kubernetes.azure.com/artifactstreaming-enabled"]; there {
		t.Errorf("a label says that images are streamed: %s", value)
	}
}
