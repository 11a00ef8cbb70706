package azurev1beta1

// LocalDNS is a DNS cache on every machine. AKS's images bring it along.
type LocalDNS struct {
	// Mode says whether machines have the cache: Required, Disabled, or Preferred, which is where the cluster allows it.
	// +kubebuilder:validation:Enum={Preferred,Required,Disabled}
	// +required
	Mode string `json:"mode"`

	// VnetDNSOverrides say how names are looked up for pods that use the network's DNS, zone by zone.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.exists(o, o.zone == '.') && self.exists(o, o.zone == 'cluster.local')",message="vnetDNSOverrides needs the zones . and cluster.local"
	// +kubebuilder:validation:XValidation:rule="self.all(o, o.forwardDestination != 'ClusterCoreDNS' || o.zone != '.')",message="zone . of vnetDNSOverrides cannot be forwarded to ClusterCoreDNS"
	// +kubebuilder:validation:XValidation:rule="self.all(o, o.forwardDestination != 'ClusterCoreDNS' || o.zone == '.' || o.zone.endsWith('cluster.local'))",message="only zones of vnetDNSOverrides that end in cluster.local can be forwarded to ClusterCoreDNS"
	// +listType=map
	// +listMapKey=zone
	// +required
	VnetDNSOverrides []LocalDNSZone `json:"vnetDNSOverrides"`

	// KubeDNSOverrides say how names are looked up for pods that use the cluster's DNS, zone by zone.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.exists(o, o.zone == '.') && self.exists(o, o.zone == 'cluster.local')",message="kubeDNSOverrides needs the zones . and cluster.local"
	// +listType=map
	// +listMapKey=zone
	// +required
	KubeDNSOverrides []LocalDNSZone `json:"kubeDNSOverrides"`
}

// A LocalDNSZone says how names of one zone are looked up.
//
// +kubebuilder:validation:XValidation:rule="self.forwardDestination != 'VnetDNS' || !self.zone.endsWith('cluster.local')",message="a zone that ends in cluster.local cannot be forwarded to VnetDNS"
// +kubebuilder:validation:XValidation:rule="self.serveStale != 'Verify' || self.protocol != 'ForceTCP'",message="serveStale Verify cannot be combined with protocol ForceTCP"
type LocalDNSZone struct {
	// Zone that this is about, . for all that no other is about.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^(\.|[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?)*\.?)$`
	// +required
	Zone string `json:"zone"`

	// QueryLogging writes all queries to the log, or only errors.
	// +kubebuilder:validation:Enum={Error,Log}
	// +required
	QueryLogging string `json:"queryLogging"`

	// Protocol that queries are forwarded by.
	// +kubebuilder:validation:Enum={PreferUDP,ForceTCP}
	// +required
	Protocol string `json:"protocol"`

	// ForwardDestination is who is asked: the cluster's CoreDNS or the network's DNS servers.
	// +kubebuilder:validation:Enum={ClusterCoreDNS,VnetDNS}
	// +required
	ForwardDestination string `json:"forwardDestination"`

	// ForwardPolicy says which of several servers is asked.
	// +kubebuilder:validation:Enum={Sequential,RoundRobin,Random}
	// +required
	ForwardPolicy string `json:"forwardPolicy"`

	// MaxConcurrent is how many queries may be on their way at a time.
	// +kubebuilder:validation:Minimum=0
	// +required
	MaxConcurrent *int32 `json:"maxConcurrent"`

	// CacheDuration is how long answers are kept.
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +required
	CacheDuration string `json:"cacheDuration"`

	// ServeStaleDuration is how long answers may be given after that.
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +required
	ServeStaleDuration string `json:"serveStaleDuration"`

	// ServeStale says when that is done: Verify asks first, Immediate at once, Disable never.
	// +kubebuilder:validation:Enum={Verify,Immediate,Disable}
	// +required
	ServeStale string `json:"serveStale"`
}
