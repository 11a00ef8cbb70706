package azurev1beta1

// LinuxOSConfig is how the operating system of AKS's images is set up.
type LinuxOSConfig struct {
	// SwapFileSize is the size of a swap file; without it there is none.
	// +kubebuilder:validation:Pattern=`^\d+(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$`
	// +optional
	SwapFileSize string `json:"swapFileSize,omitempty"`

	// TransparentHugePageEnabled says which memory is given in huge pages.
	// +kubebuilder:validation:Enum={always,madvise,never}
	// +optional
	TransparentHugePageEnabled string `json:"transparentHugePageEnabled,omitempty"`

	// TransparentHugePageDefrag says how hard the kernel tries to make room for huge pages.
	// +kubebuilder:validation:Enum={always,defer,defer+madvise,madvise,never}
	// +optional
	TransparentHugePageDefrag string `json:"transparentHugePageDefrag,omitempty"`

	// Sysctls are settings of the kernel.
	// +optional
	Sysctls *Sysctls `json:"sysctls,omitempty"`
}

// Sysctls are settings of the kernel.
//
// +kubebuilder:validation:XValidation:rule="!has(self.netCoreRmemDefault) || !has(self.netCoreRmemMax) || self.netCoreRmemDefault <= self.netCoreRmemMax",message="netCoreRmemDefault must be at most netCoreRmemMax"
// +kubebuilder:validation:XValidation:rule="!has(self.netCoreWmemDefault) || !has(self.netCoreWmemMax) || self.netCoreWmemDefault <= self.netCoreWmemMax",message="netCoreWmemDefault must be at most netCoreWmemMax"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4NeighDefaultGcThresh1) || !has(self.netIPv4NeighDefaultGcThresh2) || self.netIPv4NeighDefaultGcThresh1 <= self.netIPv4NeighDefaultGcThresh2",message="netIPv4NeighDefaultGcThresh1 must be at most netIPv4NeighDefaultGcThresh2"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4NeighDefaultGcThresh2) || !has(self.netIPv4NeighDefaultGcThresh3) || self.netIPv4NeighDefaultGcThresh2 <= self.netIPv4NeighDefaultGcThresh3",message="netIPv4NeighDefaultGcThresh2 must be at most netIPv4NeighDefaultGcThresh3"
// +kubebuilder:validation:XValidation:rule="!has(self.netIPv4NeighDefaultGcThresh1) || !has(self.netIPv4NeighDefaultGcThresh3) || self.netIPv4NeighDefaultGcThresh1 <= self.netIPv4NeighDefaultGcThresh3",message="netIPv4NeighDefaultGcThresh1 must be at most netIPv4NeighDefaultGcThresh3"
type Sysctls struct {
	// FsAioMaxNr is fs.aio-max-nr.
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=6553500
	// +optional
	FsAioMaxNr *int32 `json:"fsAioMaxNr,omitempty"`

	// FsFileMax is fs.file-max.
	// +kubebuilder:validation:Minimum=8192
	// +kubebuilder:validation:Maximum=12000500
	// +optional
	FsFileMax *int32 `json:"fsFileMax,omitempty"`

	// FsInotifyMaxUserWatches is fs.inotify.max_user_watches.
	// +kubebuilder:validation:Minimum=781250
	// +kubebuilder:validation:Maximum=2097152
	// +optional
	FsInotifyMaxUserWatches *int32 `json:"fsInotifyMaxUserWatches,omitempty"`

	// FsNrOpen is fs.nr_open.
	// +kubebuilder:validation:Minimum=8192
	// +kubebuilder:validation:Maximum=20000500
	// +optional
	FsNrOpen *int32 `json:"fsNrOpen,omitempty"`

	// KernelThreadsMax is kernel.threads-max.
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=513785
	// +optional
	KernelThreadsMax *int32 `json:"kernelThreadsMax,omitempty"`

	// NetCoreNetdevMaxBacklog is net.core.netdev_max_backlog.
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetCoreNetdevMaxBacklog *int32 `json:"netCoreNetdevMaxBacklog,omitempty"`

	// NetCoreOptmemMax is net.core.optmem_max.
	// +kubebuilder:validation:Minimum=20480
	// +kubebuilder:validation:Maximum=4194304
	// +optional
	NetCoreOptmemMax *int32 `json:"netCoreOptmemMax,omitempty"`

	// NetCoreRmemDefault is net.core.rmem_default, at most netCoreRmemMax.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreRmemDefault *int32 `json:"netCoreRmemDefault,omitempty"`

	// NetCoreRmemMax is net.core.rmem_max.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreRmemMax *int32 `json:"netCoreRmemMax,omitempty"`

	// NetCoreSomaxconn is net.core.somaxconn.
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetCoreSomaxconn *int32 `json:"netCoreSomaxconn,omitempty"`

	// NetCoreWmemDefault is net.core.wmem_default, at most netCoreWmemMax.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreWmemDefault *int32 `json:"netCoreWmemDefault,omitempty"`

	// NetCoreWmemMax is net.core.wmem_max.
	// +kubebuilder:validation:Minimum=212992
	// +kubebuilder:validation:Maximum=134217728
	// +optional
	NetCoreWmemMax *int32 `json:"netCoreWmemMax,omitempty"`

	// NetIPv4IPLocalPortRange is net.ipv4.ip_local_port_range: the first and the last port, separated by a space.
	// +kubebuilder:validation:Pattern=`^[0-9]{4,5} [0-9]{5}$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9]{4,5} [0-9]{5}$') || (int(self.split(' ')[0]) >= 1024 && int(self.split(' ')[0]) <= 60999 && int(self.split(' ')[1]) >= 32768 && int(self.split(' ')[1]) <= 65535 && int(self.split(' ')[0]) <= int(self.split(' ')[1]))",message="netIPv4IPLocalPortRange must be a first port of 1024 to 60999 and a last port of 32768 to 65535 that is not smaller"
	// +kubebuilder:validation:MaxLength=11
	// +optional
	NetIPv4IPLocalPortRange string `json:"netIPv4IPLocalPortRange,omitempty"`

	// NetIPv4NeighDefaultGcThresh1 is net.ipv4.neigh.default.gc_thresh1.
	// +kubebuilder:validation:Minimum=128
	// +kubebuilder:validation:Maximum=80000
	// +optional
	NetIPv4NeighDefaultGcThresh1 *int32 `json:"netIPv4NeighDefaultGcThresh1,omitempty"`

	// NetIPv4NeighDefaultGcThresh2 is net.ipv4.neigh.default.gc_thresh2.
	// +kubebuilder:validation:Minimum=512
	// +kubebuilder:validation:Maximum=90000
	// +optional
	NetIPv4NeighDefaultGcThresh2 *int32 `json:"netIPv4NeighDefaultGcThresh2,omitempty"`

	// NetIPv4NeighDefaultGcThresh3 is net.ipv4.neigh.default.gc_thresh3.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=100000
	// +optional
	NetIPv4NeighDefaultGcThresh3 *int32 `json:"netIPv4NeighDefaultGcThresh3,omitempty"`

	// NetIPv4TCPFinTimeout is net.ipv4.tcp_fin_timeout, in seconds.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=120
	// +optional
	NetIPv4TCPFinTimeout *int32 `json:"netIPv4TCPFinTimeout,omitempty"`

	// NetIPv4TCPKeepaliveIntvl is net.ipv4.tcp_keepalive_intvl, in seconds.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=90
	// +optional
	NetIPv4TCPKeepaliveIntvl *int32 `json:"netIPv4TCPKeepaliveIntvl,omitempty"`

	// NetIPv4TCPKeepaliveProbes is net.ipv4.tcp_keepalive_probes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	// +optional
	NetIPv4TCPKeepaliveProbes *int32 `json:"netIPv4TCPKeepaliveProbes,omitempty"`

	// NetIPv4TCPKeepaliveTime is net.ipv4.tcp_keepalive_time, in seconds.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=432000
	// +optional
	NetIPv4TCPKeepaliveTime *int32 `json:"netIPv4TCPKeepaliveTime,omitempty"`

	// NetIPv4TCPMaxSynBacklog is net.ipv4.tcp_max_syn_backlog.
	// +kubebuilder:validation:Minimum=128
	// +kubebuilder:validation:Maximum=3240000
	// +optional
	NetIPv4TCPMaxSynBacklog *int32 `json:"netIPv4TCPMaxSynBacklog,omitempty"`

	// NetIPv4TCPMaxTwBuckets is net.ipv4.tcp_max_tw_buckets.
	// +kubebuilder:validation:Minimum=8000
	// +kubebuilder:validation:Maximum=1440000
	// +optional
	NetIPv4TCPMaxTwBuckets *int32 `json:"netIPv4TCPMaxTwBuckets,omitempty"`

	// NetIPv4TCPTwReuse is net.ipv4.tcp_tw_reuse.
	// +optional
	NetIPv4TCPTwReuse *bool `json:"netIPv4TCPTwReuse,omitempty"`

	// NetNetfilterNfConntrackBuckets is net.netfilter.nf_conntrack_buckets.
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=524288
	// +optional
	NetNetfilterNfConntrackBuckets *int32 `json:"netNetfilterNfConntrackBuckets,omitempty"`

	// NetNetfilterNfConntrackMax is net.netfilter.nf_conntrack_max.
	// +kubebuilder:validation:Minimum=131072
	// +kubebuilder:validation:Maximum=2097152
	// +optional
	NetNetfilterNfConntrackMax *int32 `json:"netNetfilterNfConntrackMax,omitempty"`

	// VMMaxMapCount is vm.max_map_count.
	// +kubebuilder:validation:Minimum=65530
	// +kubebuilder:validation:Maximum=262144
	// +optional
	VMMaxMapCount *int32 `json:"vmMaxMapCount,omitempty"`

	// VMSwappiness is vm.swappiness.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	VMSwappiness *int32 `json:"vmSwappiness,omitempty"`

	// VMVfsCachePressure is vm.vfs_cache_pressure.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	VMVfsCachePressure *int32 `json:"vmVfsCachePressure,omitempty"`
}
