package charttest

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/crds"
	"tenon.sh/playground/playgroundtest"
)

func admin(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(playgroundtest.Get(t).RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The API server reads every field and applies all rules, as it would for helm upgrade --install, and then forgets it.
func TestTheAPIServerTakesEveryObject(t *testing.T) {
	t.Parallel()
	c := client.WithFieldValidation(admin(t), metav1.FieldValidationStrict)
	all := gettingStarted().with("additionalAnnotations.a=b", "serviceAccount.annotations.c=d", "podAnnotations.a=b", "hostNetwork=true",
		"controller.securityContext.seccompProfile.type=RuntimeDefault", "settings.isolatedVPC=true", "imagePullSecrets[0].name=s",
		"controller.sidecarContainer[0].name=s", "controller.sidecarContainer[0].image=i", "controller.image.digest=sha256:0123456789012345678901234567890123456789012345678901234567890123")
	definitions := release{chart: "../charts/karpenter-crd", name: "karpenter-crd", namespace: "kube-system"}
	for name, r := range map[string]release{
		"getting started": gettingStarted(),
		"many values":     all,
		"simulated cloud": gettingStarted().with("settings.cloudProvider=kwok"),
		"definitions":     definitions,
		"with notes":      definitions.with(`additionalAnnotations.helm\.sh/resource-policy=keep`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := render(t, r)
			if len(objects) < 4 {
				t.Fatalf("only %v", names(objects))
			}
			for _, o := range objects {
				err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner("test"), client.DryRunAll)
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

// Definitions are generated once and copied: the charts hold the same kinds as the program, but for that of the simulated cloud.
func TestTheDefinitionsAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	generated, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, crd := range generated {
		if crd.Spec.Group != "karpenter.kwok.sh" {
			want = append(want, crd.Name)
		}
	}
	r := release{chart: "../charts/karpenter-crd", name: "karpenter-crd", namespace: "kube-system"}
	var got []string
	for _, o := range render(t, r.with(`additionalAnnotations.helm\.sh/resource-policy=keep`)) {
		got = append(got, o.GetName())
		if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" || o.GetAnnotations()["controller-gen.kubebuilder.io/version"] == "" {
			t.Errorf("%s: annotations %v", o.GetName(), o.GetAnnotations())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("karpenter-crd has %q, the program %q", got, want)
	}
	c, err := gettingStarted().load()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.CRDObjects()) != len(want) {
		t.Errorf("karpenter brings %d definitions along, the program has %d", len(c.CRDObjects()), len(want))
	}
}

func newObject() *unstructured.Unstructured { return &unstructured.Unstructured{} }

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
