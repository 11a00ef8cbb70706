package cluster

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"tenon.sh/api/crds"
)

// crdOwner is the field manager that definitions are applied as.
const crdOwner = "tenon"

// ApplyCRDs installs the definitions of Tenon's kinds, or brings them up to date, by server-side apply. It returns once
// the API server serves them all.
func ApplyCRDs(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("apply CRDs: %w", err)
	}
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	kinds := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for _, crd := range definitions {
		if err := applyCRD(ctx, kinds, crd); err != nil {
			return fmt.Errorf("apply CRD %s: %w", crd.Name, err)
		}
	}
	for _, crd := range definitions {
		if err := awaitCRD(ctx, kinds, crd.Name); err != nil {
			return fmt.Errorf("wait until CRD %s is served: %w", crd.Name, err)
		}
	}
	return nil
}

func applyCRD(ctx context.Context, kinds dynamic.ResourceInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	_, err = kinds.Apply(ctx, crd.Name, object, metav1.ApplyOptions{FieldManager: crdOwner, Force: true})
	return err
}

// awaitCRD waits until the API server has accepted the definition's names and serves it.
func awaitCRD(ctx context.Context, kinds dynamic.ResourceInterface, name string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		crd, err := kinds.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// A new CRD has null here for a moment. Then it is not served yet.
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, c := range conditions {
			fields, _ := c.(map[string]any)
			if fields["type"] == string(apiextensionsv1.Established) && fields["status"] == string(metav1.ConditionTrue) {
				return true, nil
			}
		}
		return false, nil
	})
}
