package bootstrap

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/userdata"
)

const (
	certificates  = "/etc/kubernetes/certs/"
	cloudConfig   = "/etc/kubernetes/azure.json"
	pauseImage    = "mcr.microsoft.com/oss/kubernetes/pause:3.6"
	usualCFSQuota = 100 * time.Millisecond
	usualGCLow    = 80 // percent of the disk
	usualGCHigh   = 85
)

// cipherSuites are the suites of TLS 1.2 with forward secrecy.
var cipherSuites = strings.Join([]string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
}, ",")

// KubeletFlags returns the flags of the machine's kubelet, by name without dashes. The class's settings override.
func KubeletFlags(in Input) map[string]string {
	out := map[string]string{
		"address": "0.0.0.0", "anonymous-auth": "false", "authentication-token-webhook": "true", "authorization-mode": "Webhook",
		"client-ca-file": certificates + "ca.crt", "cloud-provider": "external", "cluster-dns": in.DNSServiceIP, "cluster-domain": "cluster.local",
		"enforce-node-allocatable": "pods", "event-qps": "0", "eviction-hard": in.evictionHard(), "image-gc-high-threshold": strconv.Itoa(usualGCHigh), "image-gc-low-threshold": strconv.Itoa(usualGCLow),
		"kube-reserved": resourceList(in.KubeReserved), "kubeconfig": "/var/lib/kubelet/kubeconfig", "max-pods": strconv.Itoa(in.MaxPods),
		"node-status-update-frequency": "10s", "pod-manifest-path": "/etc/kubernetes/manifests", "pod-max-pids": "-1", "protect-kernel-defaults": "true",
		"read-only-port": "0", "register-with-taints": userdata.TaintList(in.Taints), "resolv-conf": "/run/systemd/resolve/resolv.conf",
		"rotate-certificates": "true", "streaming-connection-idle-timeout": "4h", "system-reserved": "cpu=0,memory=0",
		"tls-cert-file": certificates + "kubeletserver.crt", "tls-cipher-suites": cipherSuites, "tls-private-key-file": certificates + "kubeletserver.key",
	}
	gates := versionFlags(out, parseMinor(in.KubernetesVersion))
	if in.Spec != nil && in.Spec.Kubelet != nil {
		gates = append(gates, classFlags(out, in.Spec.Kubelet)...)
	}
	if len(gates) > 0 {
		out["feature-gates"] = strings.Join(slices.Sorted(slices.Values(gates)), ",")
	}
	return out
}

// versionFlags adds flags that only some versions accept or need. A kubelet does not start with an unknown flag.
func versionFlags(out map[string]string, minor int) (gates []string) {
	if minor < 30 {
		out["azure-container-registry-config"] = cloudConfig
		gates = append(gates, "DisableKubeletCloudCredentialProviders=false")
	} else {
		out["image-credential-provider-config"] = "/var/lib/kubelet/credential-provider-config.yaml"
		out["image-credential-provider-bin-dir"] = "/var/lib/kubelet/credential-provider"
	}
	if minor < 31 {
		out["keep-terminated-pod-volumes"] = "false"
	}
	if minor < 34 {
		out["cloud-config"] = cloudConfig
	}
	if minor < 35 {
		out["pod-infra-container-image"] = pauseImage
	}
	return gates
}

// evictionHard replaces all of the kubelet's thresholds. It names those of the disk too, because otherwise a full disk would evict no pod.
func (in *Input) evictionHard() string {
	return "memory.available<" + cmp.Or(in.EvictionMemory, "750Mi") + ",nodefs.available<10%,nodefs.inodesFree<5%"
}

func resourceList(list corev1.ResourceList) string {
	var out []string
	for _, name := range sortedKeys(list) {
		q := list[name]
		out = append(out, string(name)+"="+q.String())
	}
	return strings.Join(out, ",")
}

// classFlags adds the class's settings for kubelets.
func classFlags(out map[string]string, k *azurev1beta1.KubeletConfiguration) (gates []string) {
	text := func(flag, value string) {
		if value != "" {
			out[flag] = value
		}
	}
	text("cpu-manager-policy", k.CPUManagerPolicy)
	text("topology-manager-policy", k.TopologyManagerPolicy)
	text("container-log-max-size", quantity(k.ContainerLogMaxSize))
	text("allowed-unsafe-sysctls", strings.Join(slices.Sorted(slices.Values(k.AllowedUnsafeSysctls)), ","))
	low, high := gcThresholds(k)
	out["image-gc-low-threshold"], out["image-gc-high-threshold"] = strconv.Itoa(low), strconv.Itoa(high)
	number(out, "container-log-max-files", k.ContainerLogMaxFiles)
	number(out, "pod-max-pids", k.PodPidsLimit)
	if k.CPUCFSQuota != nil {
		out["cpu-cfs-quota"] = strconv.FormatBool(*k.CPUCFSQuota)
	}
	if k.FailSwapOn != nil {
		out["fail-swap-on"] = strconv.FormatBool(*k.FailSwapOn)
	}
	if p := k.CPUCFSQuotaPeriod; p != nil {
		out["cpu-cfs-quota-period"] = p.Duration.String()
		if p.Duration != usualCFSQuota { // kubelets refuse another period without the gate
			gates = append(gates, "CustomCPUCFSQuotaPeriod=true")
		}
	}
	return gates
}

// gcThresholds returns two percentages of used disk space. When more than `high` is used, the kubelet deletes images until only `low` is used. If
// a class sets only one of them, the other is adjusted, because a kubelet does not start unless high is more than low.
func gcThresholds(k *azurev1beta1.KubeletConfiguration) (low, high int) {
	low, high = usualGCLow, usualGCHigh
	if k == nil {
		return low, high
	}
	if k.ImageGCHighThresholdPercent != nil {
		high = int(*k.ImageGCHighThresholdPercent)
		low = min(low, high-1)
	}
	if k.ImageGCLowThresholdPercent != nil {
		low = int(*k.ImageGCLowThresholdPercent)
		if k.ImageGCHighThresholdPercent == nil {
			high = max(high, low+1)
		}
	}
	return low, high
}

func number[N int32 | int64](out map[string]string, flag string, value *N) {
	if value != nil {
		out[flag] = strconv.FormatInt(int64(*value), 10)
	}
}

// quantity converts a size to Kubernetes' notation: classes may have K, which Kubernetes writes k.
func quantity(text string) string {
	if digits, is := strings.CutSuffix(text, "K"); is {
		return digits + "k"
	}
	return text
}

// swapMiB returns the size of the swap file, 0 for none, negative if it cannot be parsed.
func swapMiB(spec *azurev1beta1.AKSNodeClassSpec) int64 {
	if spec.LinuxOSConfig == nil || spec.LinuxOSConfig.SwapFileSize == "" {
		return 0
	}
	q, err := resource.ParseQuantity(quantity(spec.LinuxOSConfig.SwapFileSize))
	if err != nil || q.Sign() < 0 {
		return -1
	}
	return (q.Value() + 1<<20 - 1) >> 20
}
