package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	v1 "tenon.sh/api/v1"
)

const (
	lookEvery = 2 * time.Second // time between two checks for missing kinds
	sayEvery  = time.Minute     // time between two messages about missing kinds
)

// waitForKinds returns once the API server serves the kinds that the controller needs. Until then it logs once a minute which kind is missing. It
// returns an error only if ctx ends.
func (c *autoscaler) waitForKinds(ctx context.Context) error {
	var said time.Time
	for ctx.Err() == nil {
		missing := c.missingKinds()
		if missing == nil {
			return nil
		}
		c.setProbes(nil, missing)
		if time.Since(said) >= sayEvery {
			said = time.Now()
			c.log.Info("waiting", "for", missing.Error())
		}
		pause(ctx, lookEvery)
	}
	return ctx.Err()
}

// missingKinds returns an error about the first missing kind. It returns nil if there is none.
func (c *autoscaler) missingKinds() error {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return fmt.Errorf("the API server cannot be reached: %w", err)
	}
	wanted := append([]schema.GroupVersionKind{
		v1.GroupVersion.WithKind("NodePool"), v1.GroupVersion.WithKind("NodeClaim"),
	}, c.classKinds()...)
	for _, kind := range wanted {
		served, err := client.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("the API server cannot be asked: %w", err)
		}
		found := false
		if err == nil {
			found = slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind })
		}
		if !found {
			return fmt.Errorf("kind %s of %s is not served: install it with tenon crds --apply", kind.Kind, kind.GroupVersion())
		}
	}
	return nil
}
