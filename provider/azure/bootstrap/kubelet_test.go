package bootstrap_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/bootstrap"
)

func flags(version string, change func(*azurev1beta1.KubeletConfiguration)) map[string]string {
	return bootstrap.KubeletFlags(input(func(in *bootstrap.Input) {
		in.KubernetesVersion = version
		if change != nil {
			in.Spec.Kubelet = &azurev1beta1.KubeletConfiguration{}
			change(in.Spec.Kubelet)
		}
	}))
}

// The list has all flags, in all versions, so that a new or removed flag is noticed.
func TestEveryKubeletGetsTheseFlags(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"address": "0.0.0.0", "anonymous-auth": "false", "authentication-token-webhook": "true", "authorization-mode": "Webhook",
		"client-ca-file": "/etc/kubernetes/certs/ca.crt", "cloud-provider": "external", "cluster-dns": "10.0.0.10", "cluster-domain": "cluster.local",
		"enforce-node-allocatable": "pods", "event-qps": "0", "eviction-hard": "memory.available<750Mi,nodefs.available<10%,nodefs.inodesFree<5%",
		"image-gc-high-threshold": "85", "image-gc-low-threshold": "80", "kubeconfig": "/var/lib/kubelet/kubeconfig", "max-pods": "250",
		"node-status-update-frequency": "10s", "pod-manifest-path": "/etc/kubernetes/manifests", "pod-max-pids": "-1", "protect-kernel-defaults": "true",
		"read-only-port": "0", "resolv-conf": "/run/systemd/resolve/resolv.conf", "rotate-certificates": "true", "streaming-connection-idle-timeout": "4h",
		"tls-cert-file": "/etc/kubernetes/certs/kubeletserver.crt", "tls-private-key-file": "/etc/kubernetes/certs/kubeletserver.key",
		"kube-reserved": "cpu=140m,memory=2662Mi", "system-reserved": "cpu=0,memory=0",
		"register-with-taints": "booting:NoExecute,gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute",
	}
	byVersion := map[string]string{
		"1.29.9": "azure-container-registry-config cloud-config feature-gates keep-terminated-pod-volumes pod-infra-container-image",
		"1.30.0": "cloud-config image-credential-provider-bin-dir image-credential-provider-config keep-terminated-pod-volumes pod-infra-container-image",
		"1.31.0": "cloud-config image-credential-provider-bin-dir image-credential-provider-config pod-infra-container-image",
		"1.33.9": "cloud-config image-credential-provider-bin-dir image-credential-provider-config pod-infra-container-image",
		"1.34.0": "image-credential-provider-bin-dir image-credential-provider-config pod-infra-container-image",
		"1.35.0": "image-credential-provider-bin-dir image-credential-provider-config",
	}
	values := map[string]string{
		"azure-container-registry-config": "/etc/kubernetes/azure.json", "cloud-config": "/etc/kubernetes/azure.json",
		"feature-gates": "DisableKubeletCloudCredentialProviders=false", "keep-terminated-pod-volumes": "false",
		"pod-infra-container-image":         "mcr.microsoft.com/oss/kubernetes/pause:3.6",
		"image-credential-provider-config":  "/var/lib/kubelet/credential-provider-config.yaml",
		"image-credential-provider-bin-dir": "/var/lib/kubelet/credential-provider",
	}
	for version, more := range byVersion {
		got := flags(version, nil)
		if suites := strings.Split(got["tls-cipher-suites"], ","); len(suites) != 6 {
			t.Errorf("cipher suites %v", suites)
		}
		delete(got, "tls-cipher-suites")
		all := maps.Clone(want)
		for name := range strings.FieldsSeq(more) {
			all[name] = values[name]
		}
		expect(t, got, all)
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if _, wanted := all[name]; !wanted {
				t.Errorf("%s: --%s=%s", version, name, got[name])
			}
		}
	}
}

func TestTheClassesKubeletFieldsHold(t *testing.T) {
	t.Parallel()
	got := flags("1.34.2", func(k *azurev1beta1.KubeletConfiguration) {
		*k = azurev1beta1.KubeletConfiguration{
			CPUManagerPolicy: "static", CPUCFSQuota: new(false), CPUCFSQuotaPeriod: &metav1.Duration{Duration: 250 * time.Millisecond},
			ImageGCHighThresholdPercent: new(int32(60)), ImageGCLowThresholdPercent: new(int32(50)), TopologyManagerPolicy: "best-effort",
			AllowedUnsafeSysctls: []string{"net.core.somaxconn", "kernel.msg*"}, ContainerLogMaxSize: "512K", ContainerLogMaxFiles: new(int32(7)),
			PodPidsLimit: new(int64(4096)), FailSwapOn: new(false),
		}
	})
	expect(t, got, map[string]string{
		"cpu-manager-policy": "static", "cpu-cfs-quota": "false", "cpu-cfs-quota-period": "250ms", "feature-gates": "CustomCPUCFSQuotaPeriod=true",
		"image-gc-high-threshold": "60", "image-gc-low-threshold": "50", "topology-manager-policy": "best-effort",
		"allowed-unsafe-sysctls": "kernel.msg*,net.core.somaxconn", "container-log-max-size": "512k", "container-log-max-files": "7",
		"pod-max-pids": "4096", "fail-swap-on": "false",
	})
	both := flags("1.29.0", func(k *azurev1beta1.KubeletConfiguration) {
		k.CPUCFSQuotaPeriod = &metav1.Duration{Duration: time.Second}
	})
	if got := both["feature-gates"]; got != "CustomCPUCFSQuotaPeriod=true,DisableKubeletCloudCredentialProviders=false" {
		t.Errorf("gates %s", got)
	}
	// As the API server fills in an empty kubelet: {}.
	usual := flags("1.34.2", func(k *azurev1beta1.KubeletConfiguration) {
		*k = azurev1beta1.KubeletConfiguration{CPUManagerPolicy: "none", CPUCFSQuota: new(true), CPUCFSQuotaPeriod: &metav1.Duration{Duration: 100 * time.Millisecond}, ContainerLogMaxSize: "50Mi"}
	})
	if got, there := usual["feature-gates"]; there {
		t.Errorf("gates %s", got)
	}
	expect(t, usual, map[string]string{"container-log-max-size": "50Mi", "cpu-manager-policy": "none"})
}

func TestOneThresholdOfImagesMakesTheOtherMakeWay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		low, high         *int32
		wantLow, wantHigh string
	}{
		{nil, new(int32(70)), "69", "70"},
		{nil, new(int32(95)), "80", "95"},
		{new(int32(90)), nil, "90", "91"},
		{new(int32(20)), nil, "20", "85"},
	} {
		got := flags("1.34.2", func(k *azurev1beta1.KubeletConfiguration) {
			k.ImageGCLowThresholdPercent, k.ImageGCHighThresholdPercent = test.low, test.high
		})
		expect(t, got, map[string]string{"image-gc-low-threshold": test.wantLow, "image-gc-high-threshold": test.wantHigh})
	}
}

func TestTheTaintOfUnregisteredNodesIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	for _, taints := range [][]corev1.Taint{nil, {{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}}, {{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "karpenter.sh/unregistered", Effect: "NoExecute"}}} {
		got := bootstrap.KubeletFlags(input(func(in *bootstrap.Input) { in.Taints = taints }))["register-with-taints"]
		if got != "karpenter.sh/unregistered:NoExecute" {
			t.Errorf("%d taints became %s", len(taints), got)
		}
	}
}

func TestMoreMemoryForEvictionKeepsTheDisksThresholds(t *testing.T) {
	t.Parallel()
	got := bootstrap.KubeletFlags(input(func(in *bootstrap.Input) { in.EvictionMemory = "100Mi" }))["eviction-hard"]
	if got != "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%" {
		t.Errorf("got %s", got)
	}
}

func TestNodesAreLabelledAsAKSLabelsItsOwn(t *testing.T) {
	t.Parallel()
	const aks = "kubernetes.azure.com/"
	want := map[string]string{
		"karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "spot", "app": "web", "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "eastus-1",
		"node.kubernetes.io/instance-type": "Standard_D4s_v5", "karpenter.sh/do-not-sync-taints": "true",
		aks + "role": "agent", aks + "cluster": "MC_demo", aks + "kubelet-identity-client-id": "client", aks + "mode": "system", aks + "scalesetpriority": "spot",
		aks + "priority": "spot", aks + "os-sku": "Ubuntu", aks + "os-sku-requested": "Ubuntu", aks + "os-sku-effective": "Ubuntu2404", aks + "localdns-state": "disabled",
		aks + "network-subnet": "machines", aks + "nodenetwork-vnetguid": "00000000-0000-0000-0000-000000000009", aks + "azure-cni-overlay": "true",
		aks + "podnetwork-type": "overlay", aks + "network-stateless-cni": "true", aks + "ebpf-dataplane": "cilium",
	}
	in := input(nil)
	before := len(in.Labels)
	got := bootstrap.NodeLabels(in)
	if !maps.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if len(in.Labels) != before {
		t.Error("the caller's labels were changed")
	}
	got = bootstrap.NodeLabels(input(func(in *bootstrap.Input) {
		in.Labels, in.KubeletIdentity, in.KubernetesVersion, in.Family = nil, "", "1.33.0", "AzureLinux2"
		in.Spec.ImageFamily, in.Spec.FIPSMode = "AzureLinux", "FIPS"
	}))
	expect(t, got, map[string]string{
		aks + "mode": "user", aks + "priority": "regular", aks + "os-sku": "AzureLinux", aks + "os-sku-requested": "AzureLinux", aks + "os-sku-effective": "AzureLinux",
		aks + "fips_enabled": "true", aks + "network-stateless-cni": "false",
	})
	if _, there := got[aks+"kubelet-identity-client-id"]; there {
		t.Error("an identity that is not known is said to be empty")
	}
}
