package find

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/images"
)

// UnsupportedAliasError means that no images are published for an alias and this version of Kubernetes.
type UnsupportedAliasError struct{ Problem string }

func (e *UnsupportedAliasError) Error() string { return e.Problem }

// imageKinds are the kinds of machines that the images with an ID are for.
type imageKinds map[string][][]corev1.NodeSelectorRequirement

// aliasImages reads which images an alias stands for. Not every image is published for every version: those that are not
// are left out. An image that could not be asked for is not left out: its machines would drift.
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
