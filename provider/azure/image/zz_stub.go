// Package image is a stub.
package image

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider/azure/cloud"
)

type Config struct {
	Cloud           *cloud.Cloud
	Clock           clock.PassiveClock
	UseSIG          bool
	SIGSubscription string
	Window          func(context.Context) (map[string]string, error)
}
type Finder struct{}
type Problem struct{ Reason, Message string }

func New(Config) *Finder { return &Finder{} }
func (f *Finder) Find(ctx context.Context, class *azurev1beta1.AKSNodeClass, version string) (images []azurev1beta1.NodeImage, problem Problem, err error) {
	return []azurev1beta1.NodeImage{{ID: class.Spec.ImageID + "/versions/1.0.0", Requirements: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}}}}}, problem, nil
}
func Choose(images []azurev1beta1.NodeImage, labels map[string]string) (azurev1beta1.NodeImage, bool) {
	return images[0], true
}
func Reference(id string) (*armcompute.ImageReference, error) {
	return &armcompute.ImageReference{ID: &id}, nil
}
func ID(ref *armcompute.ImageReference) string                                  { return *ref.ID }
func (f *Finder) Plan(ctx context.Context, id string) (*armcompute.Plan, error) { return nil, nil }
