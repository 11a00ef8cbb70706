package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
)

// oneCase writes the machine ID of a node or claim in one form, because IDs are compared. No patch contains this change, because a
// patch is made of two objects that were both read.
func oneCase(o any) {
	switch o := o.(type) {
	case *corev1.Node:
		o.Spec.ProviderID = azurev1beta1.OneCase(o.Spec.ProviderID)
	case *v1.NodeClaim:
		o.Status.ProviderID = azurev1beta1.OneCase(o.Status.ProviderID)
	case *corev1.NodeList:
		for i := range o.Items {
			oneCase(&o.Items[i])
		}
	case *v1.NodeClaimList:
		for i := range o.Items {
			oneCase(&o.Items[i])
		}
	}
}

// OneCaseReader returns a reader of nodes and claims with machine IDs in one form. Caches do the same by their options.
func OneCaseReader(r client.Reader) client.Reader { return oneCaseReader{r} }

type oneCaseReader struct{ client.Reader }

// Get reads an object.
func (r oneCaseReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	defer oneCase(o)
	return r.Reader.Get(ctx, key, o, options...)
}

// List lists objects.
func (r oneCaseReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	defer oneCase(list)
	return r.Reader.List(ctx, list, options...)
}

// OneCase returns a client of nodes and claims with machine IDs in one form, including the answers to writes.
func OneCase(c client.Client) client.Client { return oneCaseClient{c} }

type oneCaseClient struct{ client.Client }

// Get reads an object.
func (c oneCaseClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return OneCaseReader(c.Client).Get(ctx, key, o, options...)
}

// List lists objects.
func (c oneCaseClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return OneCaseReader(c.Client).List(ctx, list, options...)
}

// Create creates an object.
func (c oneCaseClient) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	defer oneCase(o)
	return c.Client.Create(ctx, o, options...)
}

// Patch changes an object.
func (c oneCaseClient) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	defer oneCase(o)
	return c.Client.Patch(ctx, o, patch, options...)
}

// Status changes the status of objects.
func (c oneCaseClient) Status() client.SubResourceWriter { return oneCaseStatus{c.Client.Status()} }

type oneCaseStatus struct{ client.SubResourceWriter }

// Patch changes an object's status.
func (s oneCaseStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	defer oneCase(o)
	return s.SubResourceWriter.Patch(ctx, o, patch, options...)
}
