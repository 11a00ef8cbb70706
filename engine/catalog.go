package engine

import "time"

// The kind under which a catalog is written into a snapshot file, beside the Kubernetes objects.
const (
	CatalogAPIVersion = "tenon.sh/v1alpha1"
	CatalogKind       = "Catalog"
)

// CatalogDocument is the part of a snapshot file beside the Kubernetes objects: the catalog, as the controller saw it, and the controller's options.
// With it, the controller's plan can be computed again elsewhere.
type CatalogDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is the instant that the catalog shows.
	Time    time.Time `json:"time"`
	Options Options   `json:"options"`
	Classes []Class   `json:"classes"`
	// EarlierPasses is Snapshot.EarlierPasses, which the controller keeps in memory.
	EarlierPasses *EarlierPasses `json:"earlierPasses,omitempty"`
	// ExpectedPods is Snapshot.ExpectedPods, which the controller keeps in memory.
	ExpectedPods map[string]ExpectedPod `json:"expectedPods,omitempty"`
	// NodeOverheadPrice is Snapshot.NodeOverheadPrice.
	NodeOverheadPrice float64 `json:"nodeOverheadPrice,omitempty"`
	// Commitments is Snapshot.Commitments.
	Commitments []Commitment `json:"commitments,omitempty"`
	// ScaleUps is Snapshot.ScaleUps, which the controller has learned from events of another autoscaler.
	ScaleUps []ScaleUp `json:"scaleUps,omitempty"`
	// IgnoresOverlays is true if the controller runs without the feature gate NodeOverlay.
	IgnoresOverlays bool `json:"ignoresOverlays,omitempty"`
	// IgnoresBuffers is true if the controller runs without the feature gate CapacityBuffer.
	IgnoresBuffers bool `json:"ignoresBuffers,omitempty"`
	// IgnoresRequests is true if the controller runs without the feature gate ProvisioningRequest.
	IgnoresRequests bool `json:"ignoresRequests,omitempty"`
	// IgnoresClaims is true if the controller ignores claims for devices, and extended resources that are backed by devices.
	IgnoresClaims bool `json:"ignoresClaims,omitempty"`
}
