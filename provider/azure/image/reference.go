package image

import (
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// ID is how the image is written that a machine was started from, as in status.images; "" if Azure does not say. Reference is its
// inverse.
func ID(reference *armcompute.ImageReference) string {
	var id string
	switch {
	case reference == nil:
		return ""
	case text(reference.CommunityGalleryImageID) != "":
		id = text(reference.CommunityGalleryImageID)
	case text(reference.ID) != "":
		id = text(reference.ID)
	case text(reference.Publisher) != "":
		id = strings.Join([]string{text(reference.Publisher), text(reference.Offer), text(reference.SKU), text(reference.Version)}, ":")
	}
	if n, err := parse(id); err == nil {
		return n.id() // Azure's answers do not keep to one spelling
	}
	return id
}
