package engine

import "time"

// The kind under which a catalog is written into a snapshot file, beside the Kubernetes objects.
const (
	CatalogAPIVersion = "tenon.sh/v1alpha1"
	CatalogKind       = "Catalog"
)

// CatalogDocument is what a snapshot file holds besides Kubernetes objects: what there is to buy, as the controller saw
// it, and how it decides. With it, a plan can be made again elsewhere.
type CatalogDocument struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is the instant that the catalog shows.
	Time    time.Time `json:"time"`
	Options Options   `json:"options"`
	Classes []Class   `json:"classes"`
	// EarlierPasses is what the controller remembers of its passes of disruption.
	EarlierPasses *EarlierPasses `json:"earlierPasses,omitempty"`
	// ExpectedPods is Snapshot.ExpectedPods, which the controller keeps in memory.
	ExpectedPods map[string]ExpectedPod `json:"expectedPods,omitempty"`
	// NodeOverheadPrice is the snapshot's.
	NodeOverheadPrice float64 `json:"nodeOverheadPrice,omitempty"`
	// Commitments are the snapshot's.
	Commitments []Commitment `json:"commitments,omitempty"`
	// ScaleUps is what the controller has heard of another autoscaler.
	ScaleUps []ScaleUp `json:"scaleUps,omitempty"`
	// IgnoresOverlays says that the controller runs without the feature gate NodeOverlay.
	IgnoresOverlays bool `json:"ignoresOverlays,omitempty"`
	// IgnoresBuffers says the same of CapacityBuffer.
	IgnoresBuffers bool `json:"ignoresBuffers,omitempty"`
	// IgnoresRequests says the same of ProvisioningRequest.
	IgnoresRequests bool `json:"ignoresRequests,omitempty"`
	// IgnoresClaims says that the controller does not act on claims for devices, and on resources that stand for devices.
	IgnoresClaims bool `json:"ignoresClaims,omitempty"`
}
