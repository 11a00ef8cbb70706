package bootstrap

import (
	"strconv"
	"strings"

	"tenon.sh/api/azurev1beta1"
)

// systemVariables returns the settings of the operating system.
func (in *Input) systemVariables() []variable {
	config := in.Spec.LinuxOSConfig
	if config == nil {
		config = &azurev1beta1.LinuxOSConfig{}
	}
	swap, size := swapMiB(in.Spec), ""
	if swap > 0 {
		size = strconv.FormatInt(swap, 10)
	}
	return []variable{
		{"SHOULD_CONFIG_SWAP_FILE", flag(swap > 0)},
		{"SWAP_FILE_SIZE_MB", size},
		{"SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE", flag(config.TransparentHugePageEnabled != "" || config.TransparentHugePageDefrag != "")},
		{"THP_ENABLED", config.TransparentHugePageEnabled},
		{"THP_DEFRAG", config.TransparentHugePageDefrag},
		{"SYSCTL_CONTENT", encoded(sysctlFile(config.Sysctls))},
	}
}

// sysctlFile returns the image's file of kernel settings: AKS's, the ones that a kubelet with protect-kernel-defaults needs to start, and the
// class's.
func sysctlFile(s *azurev1beta1.Sysctls) string {
	settings := map[string]string{
		"net.core.message_burst": "80", "net.core.message_cost": "40", "net.core.somaxconn": "16384",
		"net.ipv4.neigh.default.gc_thresh1": "4096", "net.ipv4.neigh.default.gc_thresh2": "8192", "net.ipv4.neigh.default.gc_thresh3": "16384",
		"net.ipv4.tcp_max_syn_backlog": "16384", "net.ipv4.tcp_retries2": "8",
		"kernel.keys.root_maxbytes": "25000000", "kernel.keys.root_maxkeys": "1000000", "kernel.panic": "10", "kernel.panic_on_oops": "1",
		"vm.overcommit_memory": "1", "vm.panic_on_oom": "0",
	}
	if s != nil {
		classSysctls(settings, s)
	}
	var out strings.Builder
	for _, key := range sortedKeys(settings) {
		out.WriteString(key + " = " + settings[key] + "\n")
	}
	return out.String()
}

func classSysctls(settings map[string]string, s *azurev1beta1.Sysctls) {
	for key, value := range map[string]*int32{
		"fs.aio-max-nr": s.FsAioMaxNr, "fs.file-max": s.FsFileMax, "fs.inotify.max_user_watches": s.FsInotifyMaxUserWatches, "fs.nr_open": s.FsNrOpen,
		"kernel.threads-max": s.KernelThreadsMax, "net.core.netdev_max_backlog": s.NetCoreNetdevMaxBacklog, "net.core.optmem_max": s.NetCoreOptmemMax,
		"net.core.rmem_default": s.NetCoreRmemDefault, "net.core.rmem_max": s.NetCoreRmemMax, "net.core.somaxconn": s.NetCoreSomaxconn,
		"net.core.wmem_default": s.NetCoreWmemDefault, "net.core.wmem_max": s.NetCoreWmemMax,
		"net.ipv4.neigh.default.gc_thresh1": s.NetIPv4NeighDefaultGcThresh1, "net.ipv4.neigh.default.gc_thresh2": s.NetIPv4NeighDefaultGcThresh2,
		"net.ipv4.neigh.default.gc_thresh3": s.NetIPv4NeighDefaultGcThresh3, "net.ipv4.tcp_fin_timeout": s.NetIPv4TCPFinTimeout,
		"net.ipv4.tcp_keepalive_intvl": s.NetIPv4TCPKeepaliveIntvl, "net.ipv4.tcp_keepalive_probes": s.NetIPv4TCPKeepaliveProbes,
		"net.ipv4.tcp_keepalive_time": s.NetIPv4TCPKeepaliveTime, "net.ipv4.tcp_max_syn_backlog": s.NetIPv4TCPMaxSynBacklog,
		"net.ipv4.tcp_max_tw_buckets": s.NetIPv4TCPMaxTwBuckets, "net.netfilter.nf_conntrack_buckets": s.NetNetfilterNfConntrackBuckets,
		"net.netfilter.nf_conntrack_max": s.NetNetfilterNfConntrackMax, "vm.max_map_count": s.VMMaxMapCount, "vm.swappiness": s.VMSwappiness,
		"vm.vfs_cache_pressure": s.VMVfsCachePressure,
	} {
		number(settings, key, value)
	}
	if s.NetIPv4IPLocalPortRange != "" {
		settings["net.ipv4.ip_local_port_range"] = s.NetIPv4IPLocalPortRange
	}
	if s.NetIPv4TCPTwReuse != nil {
		settings["net.ipv4.tcp_tw_reuse"] = "0"
		if *s.NetIPv4TCPTwReuse {
			settings["net.ipv4.tcp_tw_reuse"] = "1"
		}
	}
}
