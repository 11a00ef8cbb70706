package image_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
)

const (
	ubuntu     = "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/"
	azureLinux = "/CommunityGalleries/AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b/images/"
	kubernetes = "1.34.2"
)

// world is a subscription, and a finder for it.
type world struct {
	*azuretest.Subscription
	*image.Finder
	t      *testing.T
	clock  *clocktesting.FakeClock
	window map[string]string
	broken error // the error of reading the window
}

func newWorld(t *testing.T, change func(*image.Config)) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	w.Subscription = azuretest.New(t, w.clock)
	w.ForbidAKS()
	c, err := cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.Credential(), Options: *w.Options(), Clock: w.clock})
	w.must(err)
	config := image.Config{Cloud: c, Clock: w.clock, Window: func(context.Context) (map[string]string, error) { return w.window, w.broken }}
	if change != nil {
		change(&config)
	}
	w.Finder = image.New(config)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// publish makes images with versions. Each is newer than the one before.
func (w *world) publish(id string, versions ...string) string {
	var made []azuretest.Version
	for i, name := range versions {
		made = append(made, azuretest.Version{Name: name, Published: w.clock.Now().Add(time.Duration(i) * time.Hour)})
	}
	return w.AddImage(azuretest.Image{ID: id, Versions: made})
}

func (w *world) gallery(name string) string {
	return "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/" + name
}

func (w *world) managed(name string) string {
	return "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/images/" + name
}

func class(family string) *azurev1beta1.AKSNodeClass {
	return &azurev1beta1.AKSNodeClass{Spec: azurev1beta1.AKSNodeClassSpec{ImageFamily: family}}
}

func custom(id string) *azurev1beta1.AKSNodeClass {
	c := class(azurev1beta1.FamilyCustom)
	c.Spec.ImageID = id
	return c
}

// find returns the images of a class, which becomes ready.
func (w *world) find(c *azurev1beta1.AKSNodeClass) (out []string) {
	w.t.Helper()
	return w.findFor(c, kubernetes)
}

func (w *world) findFor(c *azurev1beta1.AKSNodeClass, version string) (out []string) {
	w.t.Helper()
	images, problem, err := w.Find(w.t.Context(), c, version)
	w.must(err)
	if problem != (image.Problem{}) {
		w.t.Fatalf("%+v", problem)
	}
	c.Status.Images = images
	v1.SetCondition(c, azurev1beta1.ConditionImagesReady, metav1.ConditionTrue, "", "", w.clock.Now())
	for _, i := range images {
		out = append(out, fmt.Sprintf("%s %s gen%s", i.ID, i.Requirements[0].Values[0], i.Requirements[1].Values[0]))
	}
	return out
}

func (w *world) expect(got []string, want ...string) {
	w.t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// problem checks the problem of a class.
func (w *world) problem(c *azurev1beta1.AKSNodeClass, reason, text string) {
	w.t.Helper()
	images, got, err := w.Find(w.t.Context(), c, kubernetes)
	if err != nil || len(images) > 0 || got.Reason != reason || !strings.Contains(got.Message, text) || strings.Contains(got.Message, "\n") {
		w.t.Errorf("got %v, %+v, %v\nwant %s: %s", images, got, err, reason, text)
	}
}

// fails checks the error for a class whose images cannot be determined.
func (w *world) fails(c *azurev1beta1.AKSNodeClass, text string) {
	w.t.Helper()
	images, got, err := w.Find(w.t.Context(), c, kubernetes)
	if err == nil || len(images) > 0 || got != (image.Problem{}) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("got %v, %+v, %v\nwant %s", images, got, err, text)
	}
}

// newNone returns a finder in a cluster without maintenance windows.
func newNone(w *world) *image.Finder {
	w.t.Helper()
	c, err := cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.Credential(), Options: *w.Options(), Clock: w.clock})
	w.must(err)
	return image.New(image.Config{Cloud: c, Clock: w.clock})
}
