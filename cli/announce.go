package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// announce writes on the leader's Lease the certificate of the catalog and the dashboard, the dashboard's port, and the catalog's address if
// the leader is no pod. Clients find a leader that is a pod by its name.
func (p *parts) announce(ctx context.Context) error {
	port, page := portOf(p.ports.metrics), portOf(p.ports.dashboard)
	if port == 0 && page == 0 || inPod() && p.opt.DisableLeaderElection {
		return nil
	}
	notes := map[string]string{certificateAnnotation: certificateText(p.ports.certificate.Leaf)}
	if port != 0 && !inPod() {
		notes[catalogAnnotation] = localCatalog(port)
	}
	if page != 0 {
		notes[dashboardPortAnnotation] = strconv.Itoa(page)
	}
	return announceCatalog(ctx, p.config, p.leaseNamespace(), p.opt.LeaderElectionName, notes)
}

func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// announceCatalog writes annotations on the leader's Lease. Without leader election there is no Lease, so announceCatalog makes one without a
// holder.
func announceCatalog(ctx context.Context, config *rest.Config, namespace, lease string, notes map[string]string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("announce the catalog: %w", err)
	}
	leases := client.CoordinationV1().Leases(namespace)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		return fmt.Errorf("announce the catalog: %w", err)
	}
	_, err = leases.Patch(ctx, lease, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: lease, Namespace: namespace, Annotations: notes},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("announce the catalog on Lease %s/%s: %w", namespace, lease, err)
	}
	return nil
}

// allowSnapshots makes the service account whose tokens users get to read the catalog.
func allowSnapshots(ctx context.Context, config *rest.Config, namespace string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("allow snapshots: %w", err)
	}
	meta := metav1.ObjectMeta{Name: snapshotAccount}
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("allow snapshots: %w", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{catalogPath, journalPath}}}}
	if _, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("allow snapshots: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: snapshotAccount},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: snapshotAccount}},
	}
	if _, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("allow snapshots: %w", err)
	}
	return nil
}
