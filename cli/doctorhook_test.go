package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/cluster"
	"tenon.sh/doctor"
)

// The endpoints of its Service show whether a webhook answers. A Service of type ExternalName has none, but its webhook may answer.
func TestAWebhookIsDeadIfItsServiceHasNoEndpointsOfItsOwn(t *testing.T) {
	t.Parallel()
	scheme := cluster.Scheme()
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "check.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "other", Name: "policy"}},
	}}}
	service := func(name string, spec corev1.ServiceSpec) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name}, Spec: spec}
	}
	outside := corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "policy.example.com"}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "policy-1", Labels: map[string]string{discoveryv1.LabelServiceName: "policy"}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
	for name, c := range map[string]struct {
		objects []client.Object
		hidden  bool // the account may not read Services
		want    string
	}{
		"a service with an endpoint":    {[]client.Object{service("policy", corev1.ServiceSpec{}), slice}, false, `1 ""`},
		"a service without":             {[]client.Object{service("policy", corev1.ServiceSpec{})}, false, `0 ""`},
		"no service":                    {nil, false, `0 ""`},
		"outside":                       {[]client.Object{service("policy", outside)}, false, `-1 "policy.example.com"`},
		"another service is outside":    {[]client.Object{service("policy", corev1.ServiceSpec{}), service("a", outside)}, false, `0 ""`},
		"services that may not be seen": {[]client.Object{service("policy", outside)}, true, `-1 "" [service other/policy]`},
	} {
		reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(hook).WithObjects(c.objects...).
			WithIndex(&corev1.Service{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
			WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, ok := list.(*corev1.ServiceList); ok && c.hidden {
					return errors.New("forbidden")
				}
				return next.List(ctx, list, options...)
			}}).Build()
		g := &gatherer{stock: stock{reader}, picture: &doctor.Picture{}}
		g.hooks(t.Context())
		var got []string
		for _, h := range g.picture.Hooks {
			got = append(got, fmt.Sprintf("%d %q", h.Endpoints, h.ExternalName))
		}
		for _, gap := range g.picture.Gaps {
			got = append(got, "["+gap.What+"]")
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}
