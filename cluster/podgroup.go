package cluster

import (
	"context"
	"fmt"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/engine"
)

// podGroupVersion is the version of PodGroup that the API server serves. It serves one version at a time, and mostly none, because the kind is alpha.
type podGroupVersion int

const (
	podGroupsV1Alpha3 podGroupVersion = iota
	podGroupsV1Alpha2
	noPodGroups
)

// watchPodGroups finds out which version of PodGroup is served, and begins to watch it.
func (c *Cluster) watchPodGroups(ctx context.Context) error {
	_, err := c.Informers.GetInformer(ctx, &schedulingv1alpha3.PodGroup{})
	if apimeta.IsNoMatchError(err) {
		c.podGroups = podGroupsV1Alpha2
		_, err = c.Informers.GetInformer(ctx, &schedulingv1alpha2.PodGroup{})
	}
	if apimeta.IsNoMatchError(err) {
		c.podGroups, err = noPodGroups, nil
	}
	if err != nil {
		return fmt.Errorf("watch PodGroups: %w", err)
	}
	return nil
}

// listPodGroups lists the PodGroups, if there are any.
func (c *Cluster) listPodGroups(ctx context.Context, s *engine.Snapshot) (err error) {
	switch c.podGroups {
	case podGroupsV1Alpha3:
		s.PodGroups, err = list[schedulingv1alpha3.PodGroup](ctx, c, &schedulingv1alpha3.PodGroupList{})
	case podGroupsV1Alpha2:
		var older []*schedulingv1alpha2.PodGroup
		older, err = list[schedulingv1alpha2.PodGroup](ctx, c, &schedulingv1alpha2.PodGroupList{})
		for _, o := range older {
			group := schedulingv1alpha3.FromV1Alpha2(o)
			group.APIVersion = schedulingv1alpha2.SchemeGroupVersion.String() // events name the served version
			s.PodGroups = append(s.PodGroups, group)
		}
	}
	if apimeta.IsNoMatchError(err) {
		return nil // Watch was not called
	}
	return err
}
