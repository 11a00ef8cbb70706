package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

func TestClusterAutoscalersOfAManagementClusterAreFoundIfTheyRun(t *testing.T) {
	t.Parallel()
	deployment := func(namespace, image string, replicas int32) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scaler"}}
		d.Spec.Replicas, d.Spec.Template.Spec.Containers = &replicas, []corev1.Container{{Name: "c", Image: image}}
		return d
	}
	const image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0"
	manage := stocked(deployment("prod", image, 1), deployment("stopped", image, 0), deployment("other", "registry.k8s.io/pause", 1))
	found, findings := autoscalersOf(t.Context(), &gatherer{stock: manage})
	if len(found) != 1 || found[0].Namespace != "prod" || len(findings) != 0 {
		t.Errorf("found %v, and it says %v", found, findings)
	}
	refuses := interceptor.NewClient(manage.Client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("forbidden")
		},
	})
	found, findings = autoscalersOf(t.Context(), &gatherer{stock: stock{refuses}})
	if len(found) != 0 || len(findings) != 1 || findings[0].Level != provider.Warning || !strings.HasSuffix(findings[0].Says, "is not known: forbidden") {
		t.Errorf("where Deployments may not be listed, found %v, and it says %v", found, findings)
	}
}
