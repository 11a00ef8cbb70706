package image

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"tenon.sh/provider/azure/cloud"
)

// version is a version of an image.
type version struct {
	name      string
	published time.Time
	excluded  bool   // from being the newest
	elsewhere bool   // it has not been copied to our region
	unready   string // "creating" and so on, "" if machines can be started from it
}

// versions returns the versions of an image, in order of their numbers.
func (f *Finder) versions(ctx context.Context, n name) (out []version, err error) {
	switch n.kind {
	case managed:
	case ofGallery:
		out, err = f.galleryVersions(ctx, n)
	case community:
		out, err = f.communityVersions(ctx, n)
	case marketplace:
		var names []string
		names, err = f.config.Cloud.MarketplaceVersions(ctx, n.parts[0], n.parts[1], n.parts[2])
		for _, name := range names {
			out = append(out, version{name: name})
		}
	}
	if err != nil {
		return nil, f.explain(n, err)
	}
	slices.SortFunc(out, func(a, b version) int { return compare(a.name, b.name) })
	return out, nil
}

func (f *Finder) galleryVersions(ctx context.Context, n name) (out []version, err error) {
	found, err := f.config.Cloud.GalleryVersions(ctx, n.base)
	if err != nil {
		return nil, err
	}
	for _, v := range found {
		made := version{name: of(v.Name)}
		if p := v.Properties; p != nil && p.ProvisioningState != nil {
			switch *p.ProvisioningState {
			case armcompute.GalleryProvisioningStateCreating, armcompute.GalleryProvisioningStateFailed, armcompute.GalleryProvisioningStateDeleting, armcompute.GalleryProvisioningStateMigrating:
				made.unready = strings.ToLower(string(*p.ProvisioningState)) // copying it to its regions takes an hour
			}
		}
		if p := v.Properties; p != nil && p.PublishingProfile != nil {
			made.published, made.excluded = of(p.PublishingProfile.PublishedDate), of(p.PublishingProfile.ExcludeFromLatest)
			made.elsewhere = len(p.PublishingProfile.TargetRegions) > 0
			for _, region := range p.PublishingProfile.TargetRegions {
				if sameRegion(of(region.Name), f.config.Cloud.Location) {
					made.elsewhere, made.excluded = false, made.excluded || of(region.ExcludeFromLatest)
				}
			}
		}
		out = append(out, made)
	}
	return out, nil
}

func (f *Finder) communityVersions(ctx context.Context, n name) (out []version, err error) {
	found, err := f.config.Cloud.CommunityVersions(ctx, n.parts[0], n.parts[1])
	if err != nil {
		return nil, err
	}
	for _, v := range found {
		made := version{name: of(v.Name)}
		if v.Properties != nil {
			made.published, made.excluded = of(v.Properties.PublishedDate), of(v.Properties.ExcludeFromLatest)
		}
		out = append(out, made)
	}
	return out, nil
}

// explain adds the remedy to an error of Azure.
func (f *Finder) explain(n name, err error) error {
	switch {
	case cloud.NotFound(err):
		return &unusableError{fmt.Sprintf("there is no image %s for machines in %s: %v", n.id(), f.config.Cloud.Location, err)}
	case cloud.Denied(err) && (n.kind == community || n.kind == marketplace):
		return fmt.Errorf("read image %s: %w: give Tenon's identity the role Reader on subscription %s", n.id(), err, f.config.Cloud.Subscription)
	case cloud.Denied(err):
		return fmt.Errorf("read image %s: %w: give Tenon's identity the role Reader on it, or on its gallery or resource group", n.id(), err)
	}
	return fmt.Errorf("read image %s: %w", n.id(), err)
}

// of returns the value of a pointer of the SDK, the zero value for nil.
func of[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// sameRegion compares names of regions: "East US" is eastus.
func sameRegion(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", ""))
}

// compare orders versions by their numbers, as Azure does.
func compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.ParseUint(as[i], 10, 64)
		y, errY := strconv.ParseUint(bs[i], 10, 64)
		c := 0
		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil:
			c = -1
		case errY == nil:
			c = 1
		default:
			c = cmp.Compare(as[i], bs[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(as), len(bs)), cmp.Compare(a, b))
}
