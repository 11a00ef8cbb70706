package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"tenon.sh/playground/playgroundtest"
)

// A Lease that a user creates in another namespace is not the controller's, even if it was renewed last. The test does not run in parallel,
// because other tests look for the Lease too.
func TestALeaseCountsWhereOnlyAControllerCanHaveMadeIt(t *testing.T) {
	o := newOffice(t)
	const tenant = "lease-tenant"
	meta := metav1.ObjectMeta{Name: tenant}
	_, err := o.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = o.kube.CoreV1().ServiceAccounts(tenant).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	renewed := metav1.NewMicroTime(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	lease := func(namespace string, renewed metav1.MicroTime) {
		leases := o.kube.CoordinationV1().Leases(namespace)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		_ = leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{})
		_, err := leases.Create(t.Context(), l, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { _ = leases.Delete(context.Background(), leaseName, metav1.DeleteOptions{}) })
	}
	find := func(namespace string) string {
		l, others, err := findLease(t.Context(), o.kube, namespace)
		switch {
		case err != nil:
			return err.Error()
		case l == nil:
			return "none but " + strings.Join(others, ", ")
		}
		return l.Namespace
	}

	lease(tenant, renewed)
	if got := find(""); got != "none but "+tenant {
		t.Errorf("a Lease of a namespace's user: found %s", got)
	}
	_, err = askLeader(t.Context(), playgroundtest.Get(t).RESTConfig(), leaderAddress{}, catalogPath)
	if err == nil || !strings.Contains(err.Error(), "in namespace "+tenant) || !strings.Contains(err.Error(), "--controller-namespace") {
		t.Errorf("asking it: %v", err)
	}
	if got := find(tenant); got != tenant {
		t.Errorf("a Lease of a namespace that was named: found %s", got)
	}
	lease(metav1.NamespaceSystem, metav1.NewMicroTime(renewed.AddDate(-50, 0, 0)))
	if got := find(""); got != metav1.NamespaceSystem {
		t.Errorf("the controller's Lease beside a newer one of a user: found %s", got)
	}

	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims/status"}, Verbs: []string{"patch"}}}}
	_, err = o.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must(t, err)
	_, err = o.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tenant},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: tenant, Namespace: tenant}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = o.kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), tenant, metav1.DeleteOptions{})
	})
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return changesNodeClaims(ctx, o.kube, tenant), nil // the API server sees the binding a moment later
	})
	must(t, err)
	if got := find(""); got != tenant {
		t.Errorf("the newer Lease of two controllers: found %s", got)
	}
	lease(metav1.NamespaceSystem, renewed)
	if got := find(""); !strings.Contains(got, "two controllers") || !strings.Contains(got, tenant) || !strings.Contains(got, metav1.NamespaceSystem) {
		t.Errorf("two controllers at the same time: found %s", got)
	}
}
