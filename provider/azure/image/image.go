// Package image finds the images for machines of a class: AKS's images of a family, or the image that the class names. For each image, it
// gives the machines that the image is for, and decides when a newer version replaces an older one. The provider writes the list into the
// class and starts machines.
package image

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/fresh"
)

const (
	aksAge    = 3 * 24 * time.Hour // the time for which the newest images of AKS are cached
	customAge = 5 * time.Minute    // the same for everything else
)

// Config holds the settings of a Finder.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// UseSIG takes AKS's images from its own galleries in SIGSubscription instead of the community galleries.
	UseSIG          bool
	SIGSubscription string
	// Window returns the data of the ConfigMap upcoming-maintenance-window, a nil map if there is none. If Window is nil, there is none.
	Window func(context.Context) (map[string]string, error)
}

// Finder finds images. It may be used from several goroutines.
type Finder struct {
	config Config
	aks    *fresh.Cache[string, []azurev1beta1.NodeImage] // the newest, by definitions and the version of Kubernetes
	own    *fresh.Cache[string, own]                      // by ID
	traits *fresh.Cache[string, traits]                   // by ID
}

// New makes a Finder. It calls no service.
func New(config Config) *Finder {
	return &Finder{
		config: config,
		aks:    fresh.New[string, []azurev1beta1.NodeImage](config.Clock, aksAge),
		own:    fresh.New[string, own](config.Clock, customAge),
		traits: fresh.New[string, traits](config.Clock, customAge),
	}
}

// Problem is the reason why a class has no images, for its condition ImagesReady. The zero value means that it has some.
type Problem struct{ Reason, Message string }

// unusableError is an error that becomes a Problem.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// Find returns the list for the status of a class, in order of priority: an instance type starts from the first image that it fits. version
// is that of Kubernetes, "1.34.2". An error means that the images cannot be found now, because Azure does not answer or does not allow it;
// the earlier list stays.
//
// A class whose images are not ready gets the newest versions. Other classes get them while the maintenance window is open; until then, a
// version that the class already has stays. A version that the class names itself is used immediately.
func (f *Finder) Find(ctx context.Context, class *azurev1beta1.AKSNodeClass, version string) (images []azurev1beta1.NodeImage, problem Problem, err error) {
	if class.Spec.ImageFamily == azurev1beta1.FamilyCustom || class.Spec.ImageID != "" {
		images, err = f.findOwn(ctx, class)
	} else if fips(class) && !f.config.UseSIG {
		return nil, Problem{azurev1beta1.ReasonSIGRequiredForFIPS, "images with FIPS are only in AKS's own galleries: set USE_SIG and SIG_SUBSCRIPTION_ID, or leave out spec.fipsMode"}, nil
	} else {
		images, err = f.findAKS(ctx, class, version)
	}
	if unusable := (*unusableError)(nil); errors.As(err, &unusable) {
		return nil, Problem{azurev1beta1.ReasonImagesNotFound, unusable.text}, nil
	}
	if err != nil {
		return nil, Problem{}, err
	}
	return images, Problem{}, nil
}

// settle keeps the versions that the class already has, unless it is time for the newest. The function `stays` reports whether a version can
// still be used.
func (f *Finder) settle(ctx context.Context, class *azurev1beta1.AKSNodeClass, newest []azurev1beta1.NodeImage, stays func(version string) bool) ([]azurev1beta1.NodeImage, error) {
	if !v1.IsTrue(class, azurev1beta1.ConditionImagesReady) {
		return newest, nil
	}
	open, err := f.open(ctx)
	if open || err != nil {
		return newest, err
	}
	for i := range newest {
		wanted, err := parse(newest[i].ID)
		if err != nil {
			return nil, err
		}
		for _, had := range class.Status.Images {
			if name, err := parse(had.ID); err == nil && strings.EqualFold(name.base, wanted.base) && stays(name.version) {
				newest[i].ID = had.ID
				break
			}
		}
	}
	return newest, nil
}

func fips(class *azurev1beta1.AKSNodeClass) bool {
	return class.Spec.FIPSMode == azurev1beta1.FIPSEnabled
}

func trustedLaunch(class *azurev1beta1.AKSNodeClass) bool {
	security := class.Spec.Security
	return security != nil && security.TrustedLaunch != nil && (security.TrustedLaunch.VTPM || security.TrustedLaunch.SecureBoot)
}

// requirements returns the requirements on machines that an image is for.
func requirements(architecture, generation string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{architecture}},
		{Key: azurev1beta1.SKUHyperVGenerationLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{generation}},
	}
}

// Choose returns the first image that fits an instance type with these labels. A label with several values means that its machines can have
// each of them.
func Choose(images []azurev1beta1.NodeImage, labels map[string][]string) (azurev1beta1.NodeImage, bool) {
	for _, image := range images {
		if !slices.ContainsFunc(image.Requirements, func(r corev1.NodeSelectorRequirement) bool { return !meets(labels[r.Key], r) }) {
			return image, true
		}
	}
	return azurev1beta1.NodeImage{}, false
}

func meets(values []string, r corev1.NodeSelectorRequirement) bool {
	listed := func(value string) bool { return slices.Contains(r.Values, value) }
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return slices.ContainsFunc(values, listed)
	case corev1.NodeSelectorOpNotIn:
		return len(values) == 0 || slices.ContainsFunc(values, func(value string) bool { return !listed(value) })
	case corev1.NodeSelectorOpExists:
		return len(values) > 0
	case corev1.NodeSelectorOpDoesNotExist:
		return len(values) == 0
	}
	return false
}
