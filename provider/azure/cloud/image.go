package cloud

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// ManagedImage returns an image by its ID, in any subscription.
func (c *Cloud) ManagedImage(ctx context.Context, id string) (*armcompute.Image, error) {
	parsed, factory, err := c.compute(id, "Microsoft.Compute/images")
	if err != nil {
		return nil, err
	}
	answer, err := factory.NewImagesClient().Get(ctx, parsed.ResourceGroupName, parsed.Name, nil)
	if err != nil {
		return nil, decode("Images_Get", parsed.Name, false, err)
	}
	return &answer.Image, nil
}

// GalleryImage returns an image of a gallery by its ID, in any subscription.
func (c *Cloud) GalleryImage(ctx context.Context, id string) (*armcompute.GalleryImage, error) {
	parsed, factory, err := c.compute(id, "Microsoft.Compute/galleries/images")
	if err != nil {
		return nil, err
	}
	answer, err := factory.NewGalleryImagesClient().Get(ctx, parsed.ResourceGroupName, parsed.Parent.Name, parsed.Name, nil)
	if err != nil {
		return nil, decode("GalleryImages_Get", parsed.Name, false, err)
	}
	return &answer.GalleryImage, nil
}

// GalleryVersions returns the versions of a gallery's image by the image's ID.
func (c *Cloud) GalleryVersions(ctx context.Context, id string) ([]*armcompute.GalleryImageVersion, error) {
	parsed, factory, err := c.compute(id, "Microsoft.Compute/galleries/images")
	if err != nil {
		return nil, err
	}
	return all(ctx, "GalleryImageVersions_ListByGalleryImage", parsed.Name, factory.NewGalleryImageVersionsClient().NewListByGalleryImagePager(parsed.ResourceGroupName, parsed.Parent.Name, parsed.Name, nil),
		func(page armcompute.GalleryImageVersionsClientListByGalleryImageResponse) []*armcompute.GalleryImageVersion {
			return page.Value
		})
}

// compute parses the ID of a resource of a kind, and makes clients for its subscription.
func (c *Cloud) compute(id, kind string) (*arm.ResourceID, *armcompute.ClientFactory, error) {
	parsed, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(parsed.ResourceType.String(), kind) {
		return nil, nil, fmt.Errorf("read the ID of a resource: %q is not the ID of one of %s", id, kind)
	}
	factory, err := armcompute.NewClientFactory(parsed.SubscriptionID, c.config.Credential, &c.config.Options)
	return parsed, factory, err
}

// CommunityImage returns an image of a community gallery.
func (c *Cloud) CommunityImage(ctx context.Context, gallery, name string) (*armcompute.CommunityGalleryImage, error) {
	answer, err := c.community.Get(ctx, c.Location, gallery, name, nil)
	if err != nil {
		return nil, decode("CommunityGalleryImages_Get", name, false, err)
	}
	return &answer.CommunityGalleryImage, nil
}

// CommunityVersions returns the versions of a community gallery's image.
func (c *Cloud) CommunityVersions(ctx context.Context, gallery, name string) ([]*armcompute.CommunityGalleryImageVersion, error) {
	return all(ctx, "CommunityGalleryImageVersions_List", name, c.versions.NewListPager(c.Location, gallery, name, nil),
		func(page armcompute.CommunityGalleryImageVersionsClientListResponse) []*armcompute.CommunityGalleryImageVersion {
			return page.Value
		})
}

// MarketplaceVersions returns the names of the versions of a marketplace image.
func (c *Cloud) MarketplaceVersions(ctx context.Context, publisher, offer, sku string) (names []string, err error) {
	answer, err := c.marketplace.List(ctx, c.Location, publisher, offer, sku, nil)
	if err != nil {
		return nil, decode("VirtualMachineImages_List", sku, false, err)
	}
	for _, v := range answer.VirtualMachineImageResourceArray {
		if v.Name != nil {
			names = append(names, *v.Name)
		}
	}
	return names, nil
}

// MarketplaceImage returns a version of a marketplace image.
func (c *Cloud) MarketplaceImage(ctx context.Context, publisher, offer, sku, version string) (*armcompute.VirtualMachineImage, error) {
	answer, err := c.marketplace.Get(ctx, c.Location, publisher, offer, sku, version, nil)
	if err != nil {
		return nil, decode("VirtualMachineImages_Get", sku, false, err)
	}
	return &answer.VirtualMachineImage, nil
}
