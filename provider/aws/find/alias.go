package find

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/images"
)

// UnsupportedAliasError means that AWS publishes no images for an alias and this version of Kubernetes.
type UnsupportedAliasError struct{ Problem string }

func (e *UnsupportedAliasError) Error() string { return e.Problem }

// imageKinds holds the kinds of machines that each image is for, by the image's ID.
type imageKinds map[string][][]corev1.NodeSelectorRequirement

// aliasImages finds the images of an alias. It leaves out images that are not published for the version. If an image cannot be looked up, it
// fails: without the image, machines would seem to have drifted.
func (f *Finder) aliasImages(ctx context.Context, alias awsv1.Alias, kubernetes string) (imageKinds, error) {
	if problem := images.Unsupported(alias, kubernetes); problem != "" {
		return nil, &UnsupportedAliasError{problem}
	}
	found := imageKinds{}
	for _, p := range images.PublishedFor(alias, kubernetes) {
		id, err := f.parameter(ctx, f.parameters, p.Parameter, alias.Version == awsv1.AliasLatest)
		if err != nil {
			return nil, fmt.Errorf("find the images of alias %s@%s: %w", strings.ToLower(alias.Family), alias.Version, err)
		}
		if id != "" {
			found[id] = append(found[id], p.Kinds...)
		}
	}
	return found, nil
}
