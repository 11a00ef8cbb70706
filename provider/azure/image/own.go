package image

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/azurev1beta1"
)

// own is the result for an image that a class names.
type own struct {
	version string   // the used version, "" for an image without versions
	usable  []string // versions that could be used
	traits  traits
}

// findOwn returns a list with the image that the class names.
func (f *Finder) findOwn(ctx context.Context, class *azurev1beta1.AKSNodeClass) ([]azurev1beta1.NodeImage, error) {
	n, err := parse(class.Spec.ImageID)
	if err != nil {
		return nil, &unusableError{"spec.imageID: " + err.Error()}
	}
	found, err := f.ownImage(ctx, n)
	if err != nil {
		return nil, err
	}
	id := n.at(found.version)
	if trustedLaunch(class) && found.traits.generation == "1" {
		return nil, &unusableError{fmt.Sprintf("image %s is of Hyper-V generation 1, and trusted launch needs 2: take another image, or leave out spec.security.trustedLaunch", id)}
	}
	needs := requirements(found.traits.architecture, found.traits.generation)
	if !found.traits.nvme { // images of AKS start either way
		needs = append(needs, corev1.NodeSelectorRequirement{Key: azurev1beta1.SKUDiskControllerLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{string(armcompute.DiskControllerTypesSCSI)}})
	}
	images := []azurev1beta1.NodeImage{{ID: id, Requirements: needs}}
	if n.kind == managed || n.version != "" {
		return images, nil
	}
	return f.settle(ctx, class, images, func(version string) bool { return slices.Contains(found.usable, version) })
}

func (f *Finder) ownImage(ctx context.Context, n name) (own, error) {
	return f.own.Get(ctx, strings.ToLower(n.id()), func(ctx context.Context) (own, error) {
		if n.kind == managed {
			t, err := f.traitsOf(ctx, n, "")
			return own{traits: t}, err
		}
		found, err := f.versions(ctx, n)
		if err != nil {
			return own{}, err
		}
		chosen, usable, err := f.choose(n, found)
		if err != nil {
			return own{}, err
		}
		t, err := f.traitsOf(ctx, n, chosen)
		return own{chosen, usable, t}, err
	})
}

// choose returns the version of an image that is used, and all versions that could be used. Versions are in order of age.
func (f *Finder) choose(n name, found []version) (chosen string, usable []string, err error) {
	var all []string
	for _, v := range found {
		all = append(all, v.name)
		if strings.EqualFold(v.name, n.version) && v.elsewhere {
			return "", nil, &unusableError{fmt.Sprintf("image %s is not replicated to %s: add that region to the version's target regions", n.id(), f.config.Cloud.Location)}
		}
		if strings.EqualFold(v.name, n.version) && v.unready != "" {
			return "", nil, &unusableError{fmt.Sprintf("image %s is %s: machines are started from it once it is there", n.id(), v.unready)}
		}
		if v.elsewhere || v.unready != "" {
			continue
		}
		usable = append(usable, v.name)
		if strings.EqualFold(v.name, n.version) || n.version == "" && !v.excluded {
			chosen = v.name
		}
	}
	switch {
	case chosen != "":
		return chosen, usable, nil
	case len(all) == 0:
		return "", nil, &unusableError{fmt.Sprintf("image %s has no version that can be used in %s", n.base, f.config.Cloud.Location)}
	case n.version != "":
		return "", nil, &unusableError{fmt.Sprintf("image %s has no version %s: it has %s", n.base, n.version, someOf(all))}
	}
	return "", nil, &unusableError{fmt.Sprintf("all versions of image %s are excluded from being the latest, or not replicated to %s: name one of %s in spec.imageID, or change that", n.base, f.config.Cloud.Location, someOf(all))}
}

// someOf lists the newest five of some versions in order of age.
func someOf(versions []string) string {
	const few = 5
	if len(versions) > few {
		return "… " + strings.Join(versions[len(versions)-few:], ", ")
	}
	return strings.Join(versions, ", ")
}
