// Package image finds the images from which machines of a class are started: the images of AKS by family, and the image that a class names itself.
// It says for which machines each image is, and when a newer image replaces an older one. The provider writes that into the class and starts
// machines.
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
	aksAge    = 3 * 24 * time.Hour // how long the newest images of AKS are believed
	customAge = 5 * time.Minute    // and all else
)

// Config says where images are.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// UseSIG has the images of AKS taken from its own galleries in SIGSubscription, else from those that are open to all.
	UseSIG          bool
	SIGSubscription string
	// Window is the data of the ConfigMap upcoming-maintenance-window, a nil map if there is none. Without Window there is none.
	Window func(context.Context) (map[string]string, error)
}

// Finder finds images. It may be used from several goroutines.
type Finder struct {
	config Config
	aks    *fresh.Cache[string, []azurev1beta1.NodeImage] // the newest, by definitions and the version of Kubernetes
	own    *fresh.Cache[string, own]                      // by ID
	traits *fresh.Cache[string, traits]                   // by ID
}

// New makes a finder. It calls nothing.
func New(config Config) *Finder {
	return &Finder{
		config: config,
		aks:    fresh.New[string, []azurev1beta1.NodeImage](config.Clock, aksAge),
		own:    fresh.New[string, own](config.Clock, customAge),
		traits: fresh.New[string, traits](config.Clock, customAge),
	}
}

// Problem is why a class has no images, as its condition ImagesReady has it. The zero value means that it has some.
type Problem struct{ Reason, Message string }

// unusableError is a problem on its way.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

// Find is the list for the status of a class, in order of priority: the first that an instance type fits is the one that it is
// started from. version is that of Kubernetes, "1.34.2". An error means that nobody can say now, for it is not known what Azure
// has, or may not be: what was found before holds.
//
// Newer versions of images are taken for a class whose images are not ready, else while the maintenance window is open; until
// then, those of an image that the class has had already stay. A version that the class names itself is taken at once.
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

// settle has images keep the version that the class has of them, unless it is time to take the newest. stays says whether a
// version can still be had.
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

// requirements are those of the machines that an image is for.
func requirements(architecture, generation string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{architecture}},
		{Key: azurev1beta1.SKUHyperVGenerationLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{generation}},
	}
}

// Choose is the first image that an instance type with these labels can be started from. A label of several values is one that
// its machines can have either way.
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
