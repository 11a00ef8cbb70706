package cli

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "tenon.sh/api/v1"
)

// leaderAddress holds the data to find the leading controller. If both fields are empty, commands look for its Lease.
type leaderAddress struct {
	// catalogURL is the address of its catalog.
	catalogURL string
	// controllerNamespace is the namespace of its Lease.
	controllerNamespace string
}

// findLease examines at most mostLeases Leases, and mostAccounts service accounts in the namespace of each.
const (
	mostLeases   = 20
	mostAccounts = 20
)

// findLease returns the Lease of the controller. It returns nil if there is none. If a namespace is given, it considers only the Lease there.
// Otherwise it considers a Lease in kube-system, and in a namespace with a service account that may write the status of all NodeClaims: users with
// write access to a namespace can create a Lease, but cannot grant this right. The namespaces of all other Leases are in others. If two Leases
// qualify, the one that was renewed last is returned, or an error that names both if they were renewed within one minute.
func findLease(ctx context.Context, api kubernetes.Interface, namespace string) (lease *coordinationv1.Lease, others []string, err error) {
	if namespace != "" {
		lease, err := api.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look for the controller's Lease in namespace %s: %w", namespace, err)
		}
		return lease, nil, nil
	}
	list, err := api.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + leaseName})
	if err != nil {
		return nil, nil, fmt.Errorf("look for the controller's Lease in all namespaces (--controller-namespace names one): %w", err)
	}
	renewed := func(l *coordinationv1.Lease) time.Time {
		if l == nil || l.Spec.RenewTime == nil {
			return time.Time{}
		}
		return l.Spec.RenewTime.Time
	}
	var second *coordinationv1.Lease
	for i := range list.Items {
		l := &list.Items[i]
		switch {
		case l.Namespace != metav1.NamespaceSystem && (i >= mostLeases || !changesNodeClaims(ctx, api, l.Namespace)):
			others = append(others, l.Namespace)
		case lease == nil || renewed(l).After(renewed(lease)):
			lease, second = l, lease
		case second == nil || renewed(l).After(renewed(second)):
			second = l
		}
	}
	if second != nil && renewed(lease).Sub(renewed(second)) < time.Minute {
		return nil, nil, fmt.Errorf("two controllers have a Lease %s: in namespace %s and in namespace %s; say which one you mean: --controller-namespace %s",
			leaseName, lease.Namespace, second.Namespace, lease.Namespace)
	}
	return lease, others, nil
}

// changesNodeClaims reports whether some service account in the namespace has the right to write the status of all NodeClaims. Only the
// controller's account has this right.
func changesNodeClaims(ctx context.Context, api kubernetes.Interface, namespace string) bool {
	accounts, err := api.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{Limit: mostAccounts})
	if err != nil {
		return false
	}
	for _, account := range accounts.Items {
		review, err := api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + account.Name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "patch", Group: v1.Group, Version: v1.GroupVersion.Version, Resource: "nodeclaims", Subresource: "status",
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false
		}
		if review.Status.Allowed {
			return true
		}
	}
	return false
}
