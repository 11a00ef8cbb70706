package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/provider"
	"tenon.sh/uninstall"
)

// stock reads the objects of an installation directly from the API server.
type stock struct{ client.Client }

func newStock(config *rest.Config) (stock, error) {
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return stock{}, fmt.Errorf("read the cluster: %w", err)
	}
	return stock{cluster.OneCase(c)}, nil
}

// list reads all objects of a kind. A kind that is not installed has none.
func (s stock) list(ctx context.Context, into client.ObjectList) error {
	err := s.List(ctx, into)
	if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// take reads all objects on which uninstall depends. It reads the node classes of the given kinds.
func (s stock) take(ctx context.Context, kinds []schema.GroupVersionKind) (*uninstall.Inventory, error) {
	inv := &uninstall.Inventory{Kinds: kinds}
	var pools v1.NodePoolList
	var claims v1.NodeClaimList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&pools, &claims, &nodes} {
		if err := s.list(ctx, list); err != nil {
			return nil, fmt.Errorf("read what is installed: %w", err)
		}
	}
	for i := range pools.Items {
		inv.Pools = append(inv.Pools, &pools.Items[i])
	}
	for i := range claims.Items {
		inv.Claims = append(inv.Claims, &claims.Items[i])
	}
	for i := range nodes.Items {
		inv.Nodes = append(inv.Nodes, &nodes.Items[i])
	}
	for _, kind := range kinds {
		if err := s.takeClasses(ctx, inv, kind); err != nil {
			return nil, err
		}
	}
	return inv, nil
}

func (s stock) takeClasses(ctx context.Context, inv *uninstall.Inventory, kind schema.GroupVersionKind) error {
	made, err := s.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return fmt.Errorf("read objects of kind %s: %w", kind.Kind, err)
	}
	list := made.(client.ObjectList)
	if err := s.list(ctx, list); err != nil {
		return fmt.Errorf("read objects of kind %s: %w", kind.Kind, err)
	}
	return apimeta.EachListItem(list, func(o runtime.Object) error {
		object := o.(provider.Object)
		object.GetObjectKind().SetGroupVersionKind(kind)
		inv.Classes = append(inv.Classes, provider.Class{
			Ref: v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: object.GetName()}, Object: object,
		})
		return nil
	})
}

// groups lists the API groups of the node classes that NodePools and NodeClaims refer to. After an interrupted removal, there may be no NodePools
// and NodeClaims. Then groups takes the first of these sources that has any: the remaining node classes, the labels of nodes, the CRDs if
// only one kind of node class is installed.
func (s stock) groups(ctx context.Context) (out []string) {
	known := allClassKinds()
	inv, err := s.take(ctx, known)
	if err != nil {
		return nil // the next reader reports the error
	}
	add := func(ref *v1.NodeClassReference) {
		if ref != nil {
			out = append(out, ref.Group)
		}
	}
	for _, p := range inv.Pools {
		add(p.Spec.Template.Spec.NodeClassRef)
	}
	for _, c := range inv.Claims {
		add(c.Spec.NodeClassRef)
	}
	if len(out) > 0 {
		return out
	}
	for _, c := range inv.Classes {
		add(&c.Ref)
	}
	if len(out) > 0 {
		return out
	}
	var served []string
	for _, kind := range known {
		ref := v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind}
		if slices.ContainsFunc(inv.Nodes, func(n *corev1.Node) bool { return n.Labels[ref.LabelKey()] != "" }) {
			add(&ref)
		}
		if _, err := s.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err == nil {
			served = append(served, kind.Group)
		}
	}
	if len(out) == 0 && len(served) == 1 {
		return served
	}
	return out
}
