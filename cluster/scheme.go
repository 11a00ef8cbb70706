package cluster

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/awsv1"
	"tenon.sh/api/azurev1beta1"
	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/api/kwokv1alpha1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// Scheme returns a scheme with the kinds that the controllers read and write, and no others, because a whole client-go scheme costs memory.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme,
		appsv1.AddToScheme,
		policyv1.AddToScheme,
		nodev1.AddToScheme,
		resourcev1.AddToScheme,
		storagev1.AddToScheme,
		schedulingv1alpha2.AddToScheme,
		schedulingv1alpha3.AddToScheme,
		coordinationv1.AddToScheme,
		authenticationv1.AddToScheme,
		authorizationv1.AddToScheme,
		v1.AddToScheme,
		v1alpha1.AddToScheme,
		autoscalingv1.AddToScheme,
		autoscalingv1beta1.AddToScheme,
		kwokv1alpha1.AddToScheme,
		awsv1.AddToScheme,
		azurev1beta1.AddToScheme,
		clusterapiv1alpha1.AddToScheme,
	} {
		// This fails only if two Go types are registered for one kind, which does not depend on input.
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("register kinds: %v", err))
		}
	}
	return scheme
}
