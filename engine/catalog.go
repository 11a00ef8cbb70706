package engine

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	Time    metav1.Time `json:"time"`
	Options Options     `json:"options"`
	Classes []Class     `json:"classes"`
}
