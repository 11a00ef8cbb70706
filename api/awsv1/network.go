package awsv1

// Types of network interfaces.
const (
	InterfaceTypeInterface = "interface"
	InterfaceTypeEFAOnly   = "efa-only"
)

// A NetworkInterface is one network interface of a machine.
type NetworkInterface struct {
	// NetworkCardIndex is the card that the interface is on.
	// +kubebuilder:validation:Minimum=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`

	// DeviceIndex is its place on the card.
	// +kubebuilder:validation:Minimum=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`

	// InterfaceType is interface, or efa-only for one that carries no IP traffic.
	// +kubebuilder:validation:Enum={interface,efa-only}
	// +required
	InterfaceType string `json:"interfaceType"`
}

// ConnectionTracking says how long idle connections are remembered, in seconds.
type ConnectionTracking struct {
	// TCPEstablishedTimeout is for established TCP connections.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`

	// UDPStreamTimeout is for UDP flows that have seen more than one request and answer.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`

	// UDPTimeout is for UDP flows that have seen traffic in one direction, or a single request and answer.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}
