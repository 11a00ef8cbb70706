package provider

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a Kubernetes object of a provider's own kind.
type Object interface {
	metav1.Object
	runtime.Object
}
