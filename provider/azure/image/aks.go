package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tenon.sh/api/azurev1beta1"
)

// findAKS returns the list of AKS's images for a class.
func (f *Finder) findAKS(ctx context.Context, class *azurev1beta1.AKSNodeClass, kubernetes string) ([]azurev1beta1.NodeImage, error) {
	family := Effective(class, kubernetes)
	wanted := definitions(family, fips(class), trustedLaunch(class))
	if len(wanted) == 0 {
		return nil, &unusableError{fmt.Sprintf("there are no images of %s with what spec.fipsMode and spec.security.trustedLaunch ask for: change one of them", family)}
	}
	key := family + " " + kubernetes
	for _, d := range wanted {
		key += " " + d.name
	}
	newest, err := f.aks.Get(ctx, key, func(ctx context.Context) ([]azurev1beta1.NodeImage, error) {
		return f.newestAKS(ctx, family, wanted)
	})
	if err != nil {
		return nil, err
	}
	return f.settle(ctx, class, copied(newest), func(string) bool { return true })
}

// newestAKS returns the newest version of each definition. It leaves out definitions that AKS does not publish here.
func (f *Finder) newestAKS(ctx context.Context, family string, wanted []definition) (out []azurev1beta1.NodeImage, err error) {
	var names []string
	for _, d := range wanted {
		n, err := parse(f.aksID(family, d.name))
		if err != nil {
			return nil, fmt.Errorf("find images of AKS: set SIG_SUBSCRIPTION_ID: %w", err)
		}
		names = append(names, n.base)
		found, err := f.versions(ctx, n)
		if missing := (*unusableError)(nil); errors.As(err, &missing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(v version) bool { return v.elsewhere || v.name == "" })
		if len(found) == 0 {
			continue
		}
		newest := slices.MaxFunc(found, func(a, b version) int { return cmp.Or(a.published.Compare(b.published), compare(a.name, b.name)) })
		out = append(out, azurev1beta1.NodeImage{ID: n.at(newest.name), Requirements: requirements(d.architecture, d.generation)})
	}
	if len(out) == 0 {
		return nil, &unusableError{fmt.Sprintf("there are no images of %s in %s: none of %s has a version there", family, f.config.Cloud.Location, strings.Join(names, ", "))}
	}
	return out, nil
}

func (f *Finder) aksID(family, definition string) string {
	g := galleryOf(family)
	if f.config.UseSIG {
		return galleryImageID(f.config.SIGSubscription, g.group, g.name, definition)
	}
	return communityID(g.community, definition)
}

// copied returns a copy of the list that callers may change.
func copied(images []azurev1beta1.NodeImage) []azurev1beta1.NodeImage {
	out := slices.Clone(images)
	for i := range out {
		out[i] = *out[i].DeepCopy()
	}
	return out
}
