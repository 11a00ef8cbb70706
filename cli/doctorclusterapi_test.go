package cli

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"tenon.sh/provider"
)

func TestWhatTheControllerMayNotDoInTheManagementClusterIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		denies func(r *authorizationv1.ResourceAttributes) (bool, error)
		level  provider.Level
		says   string
	}{
		"nothing": {func(*authorizationv1.ResourceAttributes) (bool, error) { return false, nil }, provider.OK, "the controller may do all that it does in the management cluster"},
		"replicas": {func(r *authorizationv1.ResourceAttributes) (bool, error) { return r.Subresource == "scale", nil }, provider.Problem,
			"the controller may not patch machinedeployments/scale.cluster.x-k8s.io"},
		"Machines": {func(r *authorizationv1.ResourceAttributes) (bool, error) {
			return r.Resource == "machines" && r.Verb != "get", nil
		}, provider.Problem, "the controller may not list machines.cluster.x-k8s.io, watch machines.cluster.x-k8s.io, patch machines.cluster.x-k8s.io, delete machines.cluster.x-k8s.io"},
		"asking": {func(*authorizationv1.ResourceAttributes) (bool, error) { return false, errors.New("refused") }, provider.Warning, "they could not be looked at: refused"},
	} {
		found := managementRights(t.Context(), func(_ context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
			no, err := c.denies(r)
			return !no, err
		})
		if len(found) != 1 || found[0].Level != c.level || found[0].Says != c.says {
			t.Errorf("%s: %+v, want %s: %s", name, found, c.level, c.says)
		}
	}
}
