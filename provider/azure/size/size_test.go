package size_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/provider/azure/size"
)

const gib = 1 << 10 // in MiB

// d4 returns the figures of an ordinary size.
func d4() size.Figures {
	return size.Figures{
		Name: "Standard_D4ads_v5", Architecture: "amd64", VCPUs: 4, MemoryMiB: 16 * gib, DataDisks: 8, Generations: []string{"1", "2"},
		AcceleratedNetworking: true, PremiumStorage: true, EncryptionAtHost: true, Spot: true,
		Zones: []size.Zone{{Number: "1"}, {Number: "2"}, {Number: "3"}},
	}
}

func changed(change func(*size.Figures)) size.Figures {
	f := d4()
	change(&f)
	return f
}

func named(name string, cores int, mib int64) size.Figures {
	return changed(func(f *size.Figures) { f.Name, f.VCPUs, f.MemoryMiB = name, cores, mib })
}

func want(t *testing.T, of string, got corev1.ResourceList, name corev1.ResourceName, text string) {
	t.Helper()
	if q := got[name]; q.String() != text {
		t.Errorf("%s: %s is %s, want %s", of, name, q.String(), text)
	}
}

func TestNamesSayFamilySeriesAndVersion(t *testing.T) {
	for name, want := range map[string]size.Name{
		"Standard_D4pls_v6":                     {Family: "D", Series: "Dpls_v6", Version: "6"},
		"Standard_A2":                           {Family: "A", Series: "A", Version: "1"},
		"Basic_A3":                              {Family: "A", Series: "A", Version: "1"},
		"Standard_NC24ads_A100_v4":              {Family: "NC", Series: "NCads_A100_v4", Version: "4", Accelerator: "A100"},
		"Standard_ND128isr_NDR_GB200_v6":        {Family: "ND", Series: "NDisr_NDR_GB200_v6", Version: "6", Accelerator: "GB200"},
		"Standard_NC128lds_xl_RTXPRO6000BSE_v6": {Family: "NC", Series: "NClds_xl_RTXPRO6000BSE_v6", Version: "6", Accelerator: "RTXPRO6000BSE"},
		"Standard_E16-4ads_v5":                  {Family: "E", Series: "Eads_v5", Version: "5", Constrained: true},
		"Standard_DS12_v2_Promo":                {Family: "DS", Series: "DS_v2", Version: "2"},
		"Standard_DC16ads_cc_v5":                {Family: "DC", Series: "DCads_cc_v5", Version: "5"},
		"Standard_M416s_10_v2":                  {Family: "M", Series: "Ms_10_v2", Version: "2"},
	} {
		if got, ok := size.ParseName(name); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, other := range []string{"", "m5.large", "Standard_", "Standard_D", "Standard_4ads", "D4ads_v5"} {
		if got, ok := size.ParseName(other); ok {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
}

func TestGPUsAreThoseThatNodesWorkWith(t *testing.T) {
	for maker, names := range map[string]string{
		size.NVIDIA: "NC6 NC24r NC6_Promo NC6s_v2 NC24rs_v3 NC4as_T4_v3 NC16ads_A10_v4 NC24ads_A100_v4 NC40ads_H100_v5 NC80adis_H100_v5 " +
			"NC128lds_xl_RTXPRO6000BSE_v6 ND6s ND40rs_v2 ND40rs_v3 ND96asr_v4 ND96amsr_A100_v4 ND96isr_H100_v5 ND96isr_H200_v5 " +
			"ND128isr_NDR_GB200_v6 ND128isr_NDR_GB300_v6 NV6 NV12s_v3 NV36adms_A10_v5",
		size.AMD: "NV4ads_V710_v5 NV28adms_V710_v5 ND96isr_MI300X_v5",
		"":       "D4ads_v5 NV4as_v4 NV6s_v2 NP10s NG8ads_V620_v1 NCC40ads_H100_v5 HB120rs_v3",
	} {
		for _, name := range strings.Fields(names) {
			if parsed, ok := size.ParseName("Standard_" + name); !ok || parsed.GPUMaker() != maker {
				t.Errorf("%s: GPUs of %q, want %q", name, parsed.GPUMaker(), maker)
			}
		}
	}
}

func TestSizesThatNoClassCanUse(t *testing.T) {
	aks, own := size.Defaults("eastus"), size.Defaults("eastus")
	own.SelfManaged = true
	gpu := named("Standard_X4as_v4", 4, 14*gib)
	gpu.GPUs = 1
	constrained := named("Standard_E16-4ads_v5", 16, 128*gib)
	constrained.AvailableVCPUs = 4
	narrow := named("Standard_E16-1ads_v5", 16, 128*gib)
	narrow.AvailableVCPUs = 1
	for _, c := range []struct {
		f            size.Figures
		aks, managed string
	}{
		{d4(), "", ""},
		{named("Standard_E64i_v3", 64, 432*gib), "AKS does not take it", ""},
		{named("Standard_E64is_v3", 64, 432*gib), "AKS does not take it", ""},
		{named("Basic_A2", 2, 3584), "AKS does not take it", ""},
		{named("Basic_A4", 8, 14*gib), "AKS does not take it", ""},
		{named("Standard_A0", 1, 768), "it has too few cores", "it has too little memory"},
		{named("Standard_B1ls", 1, 512), "it has too few cores", "it has too little memory"},
		{named("Standard_F1s", 1, 2*gib), "it has too few cores", ""},
		{named("Standard_B2ats_v2", 2, 1*gib), "it has too little memory", ""},
		{named("Standard_D2", 2, 3584), "", ""},
		{named("Standard_D2", 2, 3583), "it has too little memory", ""},
		{constrained, "its number of cores is constrained", ""},
		{narrow, "its number of cores is constrained", ""},
		{named("Standard_DC4as_v5", 4, 16*gib), "it is for confidential computing", "it is for confidential computing"},
		{named("Standard_EC4as_cc_v5", 4, 32*gib), "it is for confidential computing", "it is for confidential computing"},
		{gpu, "nothing is known of its GPUs", ""},
		{named("Standard_NG8ads_V620_v1", 8, 16*gib), "nothing is known of its GPUs", ""},
		{named("m5.large", 2, 8*gib), "its name is not of Azure's form", "its name is not of Azure's form"},
		{changed(func(f *size.Figures) { f.Restricted = true }), "the subscription may not have it in this region", "the subscription may not have it in this region"},
	} {
		if got := c.f.Refused(&aks); got != c.aks {
			t.Errorf("%s, %d cores, %d MiB: %q, want %q", c.f.Name, c.f.VCPUs, c.f.MemoryMiB, got, c.aks)
		}
		if got := c.f.Refused(&own); got != c.managed {
			t.Errorf("%s in a cluster that is not AKS: %q, want %q", c.f.Name, got, c.managed)
		}
	}
}

func TestSizesThatAClassCannotUse(t *testing.T) {
	amd := named("Standard_ND96isr_MI300X_v5", 96, 1850*gib)
	gen1 := changed(func(f *size.Figures) { f.Generations = []string{"1"} })
	arm := changed(func(f *size.Figures) { f.Architecture, f.Generations = "arm64", []string{"2"} })
	set := func(change func(*size.Settings)) size.Settings {
		s := size.Defaults("eastus")
		change(&s)
		return s
	}
	gen2Only := map[string][]string{"kubernetes.io/arch": {"amd64"}, size.LabelHyperVGeneration: {"2"}}
	for _, c := range []struct {
		f    size.Figures
		s    size.Settings
		want string
	}{
		{amd, set(func(*size.Settings) {}), "there is no driver for its GPUs"},
		{amd, set(func(s *size.Settings) { s.NoGPUDriver = true }), ""},
		{amd, set(func(s *size.Settings) { s.SelfManaged = true }), ""},
		{changed(func(f *size.Figures) { f.EncryptionAtHost = false }), set(func(s *size.Settings) { s.EncryptionAtHost = true }), "it does not encrypt at the host"},
		{d4(), set(func(s *size.Settings) { s.EncryptionAtHost = true }), ""},
		{gen1, set(func(s *size.Settings) { s.TrustedLaunch = true }), "it has no trusted launch"},
		{changed(func(f *size.Figures) { f.TrustedLaunchDisabled = true }), set(func(s *size.Settings) { s.TrustedLaunch = true }), "it has no trusted launch"},
		{d4(), set(func(s *size.Settings) { s.TrustedLaunch = true }), ""},
		{named("Standard_D2ads_v5", 2, 8*gib), set(func(s *size.Settings) { s.LocalDNS = true }), "it is too small for local DNS"},
		{d4(), set(func(s *size.Settings) { s.LocalDNS = true }), ""},
		{arm, set(func(s *size.Settings) { s.ArtifactStreaming = true }), "artifacts are not streamed on arm64"},
		{d4(), set(func(s *size.Settings) { s.ArtifactStreaming = true }), ""},
		{arm, set(func(s *size.Settings) { s.Images = []map[string][]string{gen2Only} }), "no image of the class runs on it"},
		{gen1, set(func(s *size.Settings) { s.Images = []map[string][]string{gen2Only} }), "no image of the class runs on it"},
		{d4(), set(func(s *size.Settings) { s.Images = []map[string][]string{gen2Only} }), ""},
	} {
		if got := c.f.Unfit(&c.s, c.f.Labels(&c.s)); got != c.want {
			t.Errorf("%s: %q, want %q", c.f.Name, got, c.want)
		}
	}
}

func TestWhatANodeHas(t *testing.T) {
	s := size.Defaults("eastus")
	bare := s
	bare.MemoryOverhead = 0
	f := d4()
	capacity := f.Capacity(&s, 0)
	want(t, f.Name, capacity, "cpu", "4")
	want(t, f.Name, capacity, "memory", "15891378995") // 16 GiB minus 7.5 %, rounded down
	want(t, f.Name, capacity, "ephemeral-storage", "128G")
	want(t, f.Name, capacity, "pods", "250")
	want(t, f.Name, f.Capacity(&bare, 0), "memory", "16Gi")
	want(t, f.Name, f.Capacity(&s, 15<<30), "memory", "15Gi")

	part := named("Standard_M16ms", 16, 448000) // 437.5 GiB
	want(t, part.Name, part.Capacity(&bare, 0), "memory", "437Gi")
	part = named("Standard_DS1", 2, 3584)
	want(t, part.Name, part.Capacity(&bare, 0), "memory", "3Gi")

	gpu := named("Standard_NC64as_T4_v3", 64, 440*gib)
	gpu.GPUs = 4
	want(t, gpu.Name, gpu.Capacity(&s, 0), "nvidia.com/gpu", "4")
	gpu.Name, gpu.GPUs = "Standard_ND96isr_MI300X_v5", 8
	want(t, gpu.Name, gpu.Capacity(&s, 0), "amd.com/gpu", "8")
	if _, has := f.Capacity(&s, 0)["nvidia.com/gpu"]; has {
		t.Error("a machine without GPUs lists some")
	}
	constrained := named("Standard_E16-4ads_v5", 16, 128*gib)
	constrained.AvailableVCPUs = 4
	want(t, constrained.Name, constrained.Capacity(&s, 0), "cpu", "4")
	s.OSDiskGB = 256
	want(t, f.Name, f.Capacity(&s, 0), "ephemeral-storage", "256G")
}

func TestPodsDependOnTheNetworkPlugin(t *testing.T) {
	for _, c := range []struct {
		plugin, mode string
		most         int
		want         string
	}{
		{"azure", "overlay", 0, "250"}, {"azure", "", 0, "30"}, {"none", "", 0, "250"}, {"kubenet", "", 0, "110"}, {"azure", "", 77, "77"},
	} {
		f := d4()
		want(t, c.plugin+c.mode, f.Capacity(&size.Settings{Plugin: c.plugin, Mode: c.mode, MaxPods: c.most}, 0), "pods", c.want)
	}
}

func TestWhatANodeKeepsBack(t *testing.T) {
	const threshold = 750 // MiB
	s := size.Defaults("eastus")
	for _, c := range []struct {
		cores int
		mib   int64
		cpu   string
		keeps int64
	}{
		{2, 8 * gib, "100m", 1843}, {4, 16 * gib, "140m", 2662}, {4, 7 * gib, "140m", 1638}, {3, 64 * gib, "120m", 5611},
		{64, 256 * gib, "740m", 12165}, {96, 384 * gib, "1060m", 14786}, {2, 3584, "100m", 896},
	} {
		f := named("Standard_D4", c.cores, c.mib)
		kept := f.Overhead(&s)
		want(t, f.Name, kept, "cpu", c.cpu)
		if q := kept["memory"]; q.Value() != (c.keeps+threshold)<<20 {
			t.Errorf("%d cores, %d MiB: keeps back %s of memory, want %dMi", c.cores, c.mib, q.String(), c.keeps+threshold)
		}
		want(t, f.Name, kept, "ephemeral-storage", "12500000Ki") // the kubelet evicts if less than 10 % of the disk is free
		told := f.KubeReserved(&s)                               // without the reservation for eviction
		want(t, f.Name, told, "cpu", c.cpu)
		if q := told["memory"]; q.Value() != c.keeps<<20 {
			t.Errorf("%d cores, %d MiB: the kubelet is told to keep back %s of memory, want %dMi", c.cores, c.mib, q.String(), c.keeps)
		}
	}

	f := d4()
	s.Kubelet.Reserves = size.ByPods
	s.MaxPods = 110
	want(t, "by pods", f.Overhead(&s), "memory", "2350Mi") // 20 Mi for each of 110 pods, 50 Mi, and 100 Mi for eviction
	s.MaxPods = 250
	want(t, "a quarter at most", f.Overhead(&s), "memory", "4196Mi")
	want(t, "by pods", f.Overhead(&s), "cpu", "140m")

	s.Kubelet.Reserves = size.NotAtAll
	want(t, "a kubelet that was told nothing", f.Overhead(&s), "memory", "100Mi")
	want(t, "a kubelet that was told nothing", f.Overhead(&s), "ephemeral-storage", "12500000Ki")
	s.Kubelet.KubeReserved = map[string]string{"memory": "1Gi", "cpu": "200m"}
	s.Kubelet.SystemReserved = map[string]string{"memory": "500Mi"}
	s.Kubelet.EvictionHard = map[string]string{"memory.available": "524Mi", "nodefs.available": "10G"}
	want(t, "told", f.Overhead(&s), "memory", "2Gi")
	want(t, "told", f.Overhead(&s), "cpu", "200m")
	want(t, "told", f.Overhead(&s), "ephemeral-storage", "10G")
}

func TestWhereTheSystemsDiskIs(t *testing.T) {
	with := func(name string, placements []string, nvmeMiB, cacheBytes, tempMiB int64) size.Figures {
		return changed(func(f *size.Figures) {
			f.Name, f.EphemeralOSDisk, f.Placements = name, true, placements
			f.NVMeDiskMiB, f.CachedDiskBytes, f.ResourceDiskMiB = nvmeMiB, cacheBytes, tempMiB
		})
	}
	usual := []string{"ResourceDisk", "CacheDisk"}
	for _, c := range []struct {
		f     size.Figures
		sizes int64
		where string
		disk  int64
		used  string
	}{
		{with("Standard_D128ds_v6", []string{"NvmeDisk"}, 7208960, 0, 0), 7559, "NvmeDisk", 0, "NvmeDisk"},
		{with("Standard_D16plds_v5", usual, 0, 429496729600, 614400), 429, "CacheDisk", 0, "CacheDisk"},
		{with("Standard_NC24ads_A100_v4", usual, 915527, 274877906944, 65536), 274, "CacheDisk", 274, "CacheDisk"}, // no NVMe without a placement there
		{with("Standard_NC24ads_A100_v4", usual, 915527, 274877906944, 65536), 274, "CacheDisk", 275, ""},
		{with("Standard_D64s_v3", usual, 0, 1717986918400, 524288), 1717, "CacheDisk", 2048, ""},
		{with("Standard_D2s_v3", usual, 0, 53687091200, 163840), 53, "CacheDisk", 0, ""}, // the other disk would be large enough
		{with("Standard_D2d_v4", usual, 0, 0, 163840), 171, "ResourceDisk", 0, "ResourceDisk"},
		{with("Standard_D2as_v6", nil, 0, 0, 0), 0, "", 0, ""},
		{changed(func(f *size.Figures) { f.Name, f.ResourceDiskMiB = "Standard_D2_v2", 102400 }), 0, "", 0, ""},
	} {
		got, where := c.f.EphemeralDisk()
		if got != c.sizes || where != c.where {
			t.Errorf("%s: at most %d GB on %q, want %d on %q", c.f.Name, got, where, c.sizes, c.where)
		}
		s := size.Settings{OSDiskGB: c.disk}
		if used := c.f.OSDisk(&s); used != c.used {
			t.Errorf("%s: a disk of %d GB is on %q, want %q", c.f.Name, c.disk, used, c.used)
		}
	}
}

func TestLabels(t *testing.T) {
	s := size.Defaults("westeurope")
	f := named("Standard_NC4as_T4_v3", 4, 28*gib)
	f.GPUs, f.EphemeralOSDisk, f.CachedDiskBytes = 1, true, 429496729600
	labels := f.Labels(&s)
	for key, want := range map[string]string{
		"karpenter.azure.com/sku-name": "Standard_NC4as_T4_v3", "karpenter.azure.com/sku-family": "NC",
		"karpenter.azure.com/sku-series": "NCas_T4_v3", "karpenter.azure.com/sku-version": "3", "karpenter.azure.com/sku-cpu": "4",
		"kubernetes.azure.com/sku-cpu": "4", "karpenter.azure.com/sku-memory": "28672", "kubernetes.azure.com/sku-memory": "28672",
		"karpenter.azure.com/sku-networking-accelerated": "true", "karpenter.azure.com/sku-storage-premium-capable": "true",
		"karpenter.azure.com/sku-storage-ephemeralos-maxsize": "429", "karpenter.azure.com/sku-storage-ultra-ssd": "false",
		"karpenter.azure.com/sku-gpu-name": "T4", "karpenter.azure.com/sku-gpu-manufacturer": "nvidia", "karpenter.azure.com/sku-gpu-count": "1",
		"karpenter.azure.com/sku-hyperv-generation": "2 1", "kubernetes.azure.com/mode": "user system", "kubernetes.azure.com/os-sku": "Ubuntu",
		"kubernetes.azure.com/fips_enabled": "", "kubernetes.azure.com/cluster": "",
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "topology.kubernetes.io/region": "westeurope",
	} {
		if got, listed := labels[key]; !listed || strings.Join(got, " ") != want {
			t.Errorf("label %s is %q, listed %v, want %q", key, got, listed, want)
		}
	}
	s.ImageFamily, s.FIPS, s.TrustedLaunch, s.Cluster = "AzureLinux", true, true, size.ClusterLabel("MC_(a)_b_eastus")
	plain := named("Standard_D2pds_v5", 2, 8*gib)
	plain.AcceleratedNetworking = false
	labels = plain.Labels(&s)
	for key, want := range map[string]string{
		"karpenter.azure.com/sku-networking-accelerated": "false", "karpenter.azure.com/sku-storage-ephemeralos-maxsize": "",
		"karpenter.azure.com/sku-gpu-name": "", "karpenter.azure.com/sku-gpu-manufacturer": "", "karpenter.azure.com/sku-gpu-count": "0",
		"karpenter.azure.com/sku-hyperv-generation": "2", "kubernetes.azure.com/os-sku": "AzureLinux",
		"kubernetes.azure.com/fips_enabled": "true", "kubernetes.azure.com/cluster": "MC_-a-_b_eastus",
	} {
		if got, listed := labels[key]; !listed || strings.Join(got, " ") != want {
			t.Errorf("label %s is %q, listed %v, want %q", key, got, listed, want)
		}
	}
	s.ImageFamily = "Ubuntu2404"
	if got := plain.Labels(&s)["kubernetes.azure.com/os-sku"]; !slices.Equal(got, []string{"Ubuntu"}) {
		t.Errorf("Ubuntu2404 is labelled %v", got)
	}
	plain.Untold = true
	for _, key := range []string{size.LabelUltraSSD, size.LabelEphemeralOSDisk} {
		if got, listed := plain.Labels(&s)[key]; listed {
			t.Errorf("label %s is %v where nobody knows", key, got)
		}
	}
}

func TestClusterLabelsAreValid(t *testing.T) {
	long := strings.Repeat("a", 62)
	for group, want := range map[string]string{
		"": "", "MC_a_b_eastus": "MC_a_b_eastus", "a(b)": "a-b-z", long + "bc": long + "b", long + ".c": long + "z", "a_": "a_z",
	} {
		if got := size.ClusterLabel(group); got != want {
			t.Errorf("%q: %q, want %q", group, got, want)
		}
	}
}
