package playground_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tenon.sh/playground/playgroundtest"
)

func (c *cluster) grantView(group string) error {
	_, err := c.client.RbacV1().RoleBindings(c.namespace).Create(context.Background(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	return err
}

func whoAmI(t *testing.T, config *rest.Config) string {
	t.Helper()
	review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

func TestAKubeconfigIsEnoughToBecomeItsUser(t *testing.T) {
	t.Parallel()
	p := playgroundtest.Get(t)
	user, err := p.UserKubeconfig("system:serviceaccount:kube-system:tenon", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		p.Kubeconfig(): "playground-admin",
		user:           "system:serviceaccount:kube-system:tenon",
	} {
		if got := whoAmI(t, loadKubeconfig(t, path)); got != want {
			t.Errorf("with %s I am %s, want %s", path, got, want)
		}
	}
}

func TestATokenOfAServiceAccountIsAccepted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	request, err := c.client.CoreV1().ServiceAccounts(c.namespace).
		CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	c.must(err)
	config := rest.AnonymousClientConfig(playgroundtest.Get(t).RESTConfig())
	config.BearerToken = request.Status.Token
	if got, want := whoAmI(t, config), "system:serviceaccount:"+c.namespace+":default"; got != want {
		t.Errorf("with the token I am %s, want %s", got, want)
	}
}

func loadKubeconfig(t *testing.T, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
