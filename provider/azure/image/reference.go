package image

import (
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// ID returns the ID of a machine's image in the notation of status.images. It returns "" if Azure does not give the image. The function Reference
// is the inverse.
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
		return n.id() // Azure's answers use different spellings
	}
	return id
}
