package image

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// kind is the kind of place in which an image is stored.
type kind int

const (
	managed kind = iota
	ofGallery
	community
	marketplace
)

// name is a parsed ID of an image.
type name struct {
	kind  kind
	base  string   // the ID without a version, in Azure's spelling except for names
	parts []string // community: gallery, image; marketplace: publisher, offer, SKU
	// version is "" for the newest. Managed images have none.
	version string
}

var (
	managedPattern     = regexp.MustCompile(`(?i)^/subscriptions/([^/\s]+)/resourceGroups/([^/\s]+)/providers/Microsoft\.Compute/images/([^/\s]+)$`)
	galleryPattern     = regexp.MustCompile(`(?i)^/subscriptions/([^/\s]+)/resourceGroups/([^/\s]+)/providers/Microsoft\.Compute/galleries/([^/\s]+)/images/([^/\s]+)(?:/versions/([^/\s]+))?$`)
	communityPattern   = regexp.MustCompile(`(?i)^/communityGalleries/([^/\s]+)/images/([^/\s]+)(?:/versions/([^/\s]+))?$`)
	marketplacePattern = regexp.MustCompile(`^([^/:\s]+):([^/:\s]+):([^/:\s]+):([^/:\s]+)$`)
)

// latest is the notation of the newest version.
const latest = "latest"

func parse(id string) (name, error) {
	var n name
	if m := managedPattern.FindStringSubmatch(id); m != nil {
		n = name{managed, fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/images/%s", m[1], m[2], m[3]), nil, ""}
	} else if m := galleryPattern.FindStringSubmatch(id); m != nil {
		n = name{ofGallery, galleryImageID(m[1], m[2], m[3], m[4]), nil, m[5]}
	} else if m := communityPattern.FindStringSubmatch(id); m != nil {
		n = name{community, communityID(m[1], m[2]), m[1:3], m[3]}
	} else if m := marketplacePattern.FindStringSubmatch(id); m != nil {
		n = name{marketplace, strings.Join(m[1:4], ":"), m[1:4], m[4]}
	} else {
		return name{}, fmt.Errorf("image %q: it must be the ID of an image, of an image of a gallery or of a community gallery, with or without /versions/VERSION, or PUBLISHER:OFFER:SKU:VERSION", id)
	}
	if strings.EqualFold(n.version, latest) {
		n.version = ""
	}
	return n, nil
}

func galleryImageID(subscription, group, gallery, image string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/galleries/%s/images/%s", subscription, group, gallery, image)
}

func communityID(gallery, image string) string {
	return "/CommunityGalleries/" + gallery + "/images/" + image
}

// at returns the ID of a version of the image. The version "" is the newest one.
func (n name) at(version string) string {
	switch {
	case n.kind == marketplace && version == "":
		return n.base + ":" + latest
	case n.kind == marketplace:
		return n.base + ":" + version
	case version == "":
		return n.base
	}
	return n.base + "/versions/" + version
}

// id returns the ID in Azure's spelling.
func (n name) id() string { return n.at(n.version) }

// Reference returns the reference to an image for a machine's description.
func Reference(id string) (*armcompute.ImageReference, error) {
	n, err := parse(id)
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case community:
		return &armcompute.ImageReference{CommunityGalleryImageID: new(n.id())}, nil
	case marketplace:
		version := n.version
		if version == "" {
			version = latest
		}
		return &armcompute.ImageReference{Publisher: &n.parts[0], Offer: &n.parts[1], SKU: &n.parts[2], Version: &version}, nil
	}
	return &armcompute.ImageReference{ID: new(n.id())}, nil
}
