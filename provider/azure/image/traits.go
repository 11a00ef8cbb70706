package image

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	v1 "tenon.sh/api/v1"
)

// traits are the properties of an image that decide which machines can use it.
type traits struct {
	architecture, generation string // in the notation of labels
	nvme                     bool   // it can start with disks that are attached by NVMe
	plan                     *armcompute.Plan
}

// Plan returns the purchase plan that a machine with this image must name; nil for most images.
func (f *Finder) Plan(ctx context.Context, id string) (*armcompute.Plan, error) {
	n, err := parse(id)
	if err != nil {
		return nil, err
	}
	if n.kind == managed || f.ofAKS(n) {
		return nil, nil
	}
	if n.kind == marketplace && n.version == "" {
		found, err := f.ownImage(ctx, n)
		return planOf(found.traits), err
	}
	t, err := f.traitsOf(ctx, n, n.version)
	return planOf(t), err
}

// planOf returns a copy of the plan that callers may change.
func planOf(t traits) *armcompute.Plan {
	if t.plan == nil {
		return nil
	}
	return &armcompute.Plan{Name: new(of(t.plan.Name)), Product: new(of(t.plan.Product)), Publisher: new(of(t.plan.Publisher))}
}

// ofAKS reports whether an image is AKS's. AKS's images have no plans.
func (f *Finder) ofAKS(n name) bool {
	for _, family := range []string{ubuntu2204, azureLinux3} {
		if strings.HasPrefix(strings.ToLower(n.base), strings.ToLower(f.aksID(family, ""))) {
			return true
		}
	}
	return false
}

// traitsOf returns the traits of an image. They are the same for all versions, except in the marketplace.
func (f *Finder) traitsOf(ctx context.Context, n name, version string) (traits, error) {
	id := n.base
	if n.kind == marketplace {
		id = n.at(version)
	}
	return f.traits.Get(ctx, strings.ToLower(id), func(ctx context.Context) (traits, error) {
		d, err := f.describe(ctx, n, version)
		if err != nil {
			return traits{}, f.explain(n, err)
		}
		return d.traits(id, f.config.Cloud.Location)
	})
}

// description is Azure's description of an image, whatever its kind.
type description struct {
	architecture, generation, system, state, location string
	nvme                                              bool
	plan                                              *armcompute.Plan
}

func (f *Finder) describe(ctx context.Context, n name, version string) (description, error) {
	switch n.kind {
	case ofGallery:
		image, err := f.config.Cloud.GalleryImage(ctx, n.base)
		if err != nil || image.Properties == nil {
			return description{}, err
		}
		p := image.Properties
		return description{text(p.Architecture), text(p.HyperVGeneration), text(p.OSType), text(p.OSState), "", nvme(p.Features), purchase(p.PurchasePlan)}, nil
	case community:
		image, err := f.config.Cloud.CommunityImage(ctx, n.parts[0], n.parts[1])
		if err != nil || image.Properties == nil {
			return description{}, err
		}
		p := image.Properties
		return description{text(p.Architecture), text(p.HyperVGeneration), text(p.OSType), text(p.OSState), "", nvme(p.Features), purchase(p.PurchasePlan)}, nil
	case marketplace:
		return f.describeMarketplace(ctx, n, version)
	}
	return f.describeManaged(ctx, n)
}

func (f *Finder) describeMarketplace(ctx context.Context, n name, version string) (d description, err error) {
	image, err := f.config.Cloud.MarketplaceImage(ctx, n.parts[0], n.parts[1], n.parts[2], version)
	if err != nil || image.Properties == nil {
		return d, err
	}
	p := image.Properties
	d.architecture, d.generation = text(p.Architecture), text(p.HyperVGeneration)
	for _, f := range p.Features {
		d.nvme = d.nvme || f != nil && saysNVMe(of(f.Name), of(f.Value))
	}
	if p.OSDiskImage != nil {
		d.system = text(p.OSDiskImage.OperatingSystem)
	}
	if p.Plan != nil {
		d.plan = purchase(&armcompute.ImagePurchasePlan{Name: p.Plan.Name, Product: p.Plan.Product, Publisher: p.Plan.Publisher})
	}
	return d, nil
}

// describeManaged describes a managed image. Managed images are always x64, and generation 1 if Azure gives none.
func (f *Finder) describeManaged(ctx context.Context, n name) (d description, err error) {
	image, err := f.config.Cloud.ManagedImage(ctx, n.base)
	if err != nil {
		return d, err
	}
	d = description{architecture: string(armcompute.ArchitectureX64), generation: string(armcompute.HyperVGenerationV1), location: of(image.Location)}
	p := image.Properties
	if p != nil && p.HyperVGeneration != nil {
		d.generation = text(p.HyperVGeneration)
	}
	if p != nil && p.StorageProfile != nil && p.StorageProfile.OSDisk != nil {
		d.system, d.state = text(p.StorageProfile.OSDisk.OSType), text(p.StorageProfile.OSDisk.OSState)
	}
	return d, nil
}

// nvme reports whether an image's features include NVMe. An image without this feature counts as one that cannot start with NVMe disks, as
// do managed images, which have no features.
func nvme(features []*armcompute.GalleryImageFeature) bool {
	return slices.ContainsFunc(features, func(f *armcompute.GalleryImageFeature) bool { return f != nil && saysNVMe(of(f.Name), of(f.Value)) })
}

func saysNVMe(name, value string) bool {
	return strings.EqualFold(name, "DiskControllerTypes") && strings.Contains(strings.ToUpper(value), "NVME")
}

// text returns an enumeration value of the SDK, "" for nil.
func text[T ~string](p *T) string { return string(of(p)) }

func purchase(p *armcompute.ImagePurchasePlan) *armcompute.Plan {
	if p == nil || of(p.Name) == "" {
		return nil
	}
	return &armcompute.Plan{Name: p.Name, Product: p.Product, Publisher: p.Publisher}
}

// traits returns the traits of an image, or the reason why our machines cannot use it.
func (d description) traits(id, location string) (traits, error) {
	architecture := map[string]string{"x64": v1.ArchitectureAMD64, "arm64": v1.ArchitectureARM64}[strings.ToLower(d.architecture)]
	generation, known := strings.CutPrefix(strings.ToUpper(d.generation), "V")
	switch {
	case d.location != "" && !sameRegion(d.location, location):
		return traits{}, &unusableError{fmt.Sprintf("image %s is in %s, and machines in %s cannot be started from it: copy it there, or put it into a gallery", id, d.location, location)}
	case d.system != "" && d.system != string(armcompute.OperatingSystemTypesLinux):
		return traits{}, &unusableError{fmt.Sprintf("image %s is of %s: nodes must be of Linux", id, d.system)}
	case d.state != "" && d.state != string(armcompute.OperatingSystemStateTypesGeneralized):
		return traits{}, &unusableError{fmt.Sprintf("image %s is %s: machines of it cannot be told anything; generalize it first", id, strings.ToLower(d.state))}
	case architecture == "":
		return traits{}, &unusableError{fmt.Sprintf("image %s says of its architecture %q: it must be x64 or Arm64; make the image definition anew with one", id, d.architecture)}
	case !known || generation != "1" && generation != "2":
		return traits{}, &unusableError{fmt.Sprintf("image %s says of its Hyper-V generation %q: it must be V1 or V2; make the image definition anew with one", id, d.generation)}
	}
	return traits{architecture, generation, d.nvme, d.plan}, nil
}
