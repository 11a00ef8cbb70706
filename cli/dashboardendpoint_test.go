package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/dashboard"
	"tenon.sh/scenario"
)

// allow creates a service account in kube-system with the rules in all namespaces, and returns its token for the API server.
func (o *office) allow(t *testing.T, account string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	_, err := o.kube.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	must(t, err)
	meta := metav1.ObjectMeta{Name: account}
	_, err = o.kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = o.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account}, Subjects: subject(account),
	}, metav1.CreateOptions{})
	must(t, err)
	return o.token(t, account)
}

func subject(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: account}}
}

var (
	getsDashboard = rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{dashboardPath}}
	listsPods     = rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
)

// pageOfLeader returns the page of a file, as a controller serves it.
func pageOfLeader(t *testing.T, api client.Client, file string) (*pageEndpoint, *dashboard.Picture) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	parsed, err := scenario.Parse(string(text))
	must(t, err)
	picture, err := newPicture("shop", &scenario.Reading{Snapshot: parsed.Snapshot, Options: parsed.Options})
	must(t, err)
	document, err := journalOfFiles([]string{"../dashboard/testdata/journal.jsonl"}, strings.NewReader(""))
	must(t, err)
	must(t, showJournal(picture, document))
	return newPageEndpoint(t.Context(), api, newCallers(api, apiServer, dashboardPath), func(context.Context) (*dashboard.Picture, error) { return picture, nil }), picture
}

func look(handler http.Handler, address, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

const somewhere = "https://karpenter.kube-system.svc:8443"

func TestTheLeadersPageIsForKnownReadersOverTLS(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	reads, page := o.allow(t, "page-reader", getsDashboard, listsPods), handlerOnly(pageOfLeader(t, o, "../dashboard/testdata/cluster.txt"))
	lacks := o.allow(t, "page-stranger", listsPods)
	for _, c := range []struct {
		address, token string
		want           int
	}{
		{somewhere + "/", "", http.StatusUnauthorized},
		{somewhere + "/", "stranger", http.StatusUnauthorized},
		{somewhere + "/", o.token(t, "page-reader", catalogAudience), http.StatusUnauthorized},
		{somewhere + "/", lacks, http.StatusForbidden},
		{somewhere + "/json/nodes", lacks, http.StatusForbidden},
		{somewhere + "/", reads, http.StatusOK},
		{somewhere + "/json/nodes", reads, http.StatusOK},
		{somewhere + "/decisions", reads, http.StatusOK},
	} {
		if w := look(page, c.address, c.token); w.Code != c.want {
			t.Errorf("%s with token %.10q: %d, want %d: %.200s", c.address, c.token, w.Code, c.want, w.Body)
		}
	}
	if w := look(page, somewhere+"/", reads); !strings.Contains(w.Body.String(), "ip-10-0-1-58") || w.Header().Get("Content-Security-Policy") == "" {
		t.Error("the page is not whole")
	}
	asked := o.tokens.Load()
	if w := look(page, strings.Replace(somewhere, "https", "http", 1)+"/", "never.seen.before"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "https") {
		t.Errorf("in clear text: %d %s", w.Code, w.Body)
	}
	if w := look(page, somewhere+"/waiting", reads); w.Code != http.StatusOK || o.tokens.Load() != asked {
		t.Errorf("%d: the API server was asked again", w.Code)
	}
}

func TestWhoLooksTooOftenIsToldSo(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	reads := o.allow(t, "page-hurried", getsDashboard, listsPods)
	page, _ := pageOfLeader(t, o, "../dashboard/testdata/cluster.txt")
	page.rate = rate.NewLimiter(0, 1)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if w := look(page, somewhere+"/json/nodes", reads); w.Code != want {
			t.Errorf("request %d: %d, want %d: %.200s", i+1, w.Code, want, w.Body)
		}
	}
}

func handlerOnly(e *pageEndpoint, _ *dashboard.Picture) http.Handler { return e }

func TestManyWrongTokensForThePageAskTheAPIServerAHandfulOfTimes(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	page := handlerOnly(pageOfLeader(t, o, "../dashboard/testdata/cluster.txt"))
	for i := range 1000 {
		token := fmt.Sprint("wrong-", i)
		if i%2 == 0 {
			token = "always the same"
		}
		if w := look(page, somewhere+"/", token); w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := o.tokens.Load(); n > 10 {
		t.Errorf("1,000 wrong tokens made %d reviews", n)
	}
}

// closed is an API server that refuses some kinds of requests.
type closed struct {
	client.Client
	to func(client.Object) bool
}

// Create fails for the refused kinds.
func (c closed) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if c.to(o) {
		return errors.New("etcd is gone: secret detail")
	}
	return c.Client.Create(ctx, o, opts...)
}

func TestWithoutTheAPIServersAnswerNobodySeesThePage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	token := o.allow(t, "page-unanswered", getsDashboard)
	for name, to := range map[string]func(client.Object) bool{
		"TokenReview":             isTokenReview,
		"any SubjectAccessReview": func(o client.Object) bool { return !isTokenReview(o) },
		"SubjectAccessReviews of pods": func(o client.Object) bool {
			review, ok := o.(*authorizationv1.SubjectAccessReview)
			return ok && review.Spec.ResourceAttributes != nil
		},
	} {
		page := handlerOnly(pageOfLeader(t, closed{o, to}, "../dashboard/testdata/cluster.txt"))
		if w := look(page, somewhere+"/", token); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret detail") {
			t.Errorf("without %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func isTokenReview(o client.Object) bool { _, ok := o.(*authenticationv1.TokenReview); return ok }

// A user who may list the pods of one namespace finds no name of another namespace, on any page.
func TestWhoMayListTheirOwnPodsSeesOthersAsCounts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	token := o.allow(t, "page-shop", getsDashboard)
	if err := o.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "page-shop"}
	_, err := o.kube.RbacV1().Roles("shop").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{listsPods}}, metav1.CreateOptions{})
	must(t, err)
	_, err = o.kube.RbacV1().RoleBindings("shop").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subject("page-shop"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "page-shop"},
	}, metav1.CreateOptions{})
	must(t, err)
	page, picture := pageOfLeader(t, o, "../dashboard/testdata/cluster.txt")
	var secret []string
	for _, p := range picture.Pods {
		if namespace, name, _ := strings.Cut(p.Name, "/"); namespace != "shop" {
			secret = append(secret, name)
			if p.Waiting != nil && p.Waiting.Owner != "" {
				secret = append(secret, p.Waiting.Owner)
			}
		}
	}
	names := regexp.MustCompile(`\b(` + strings.Join(slices.Compact(secret), "|") + `)\b`)
	link := regexp.MustCompile(`href="(/[^"]*)"`)
	visited, queue := map[string]bool{}, []string{
		"/", "/json/nodes", "/json/plan", "/json/savings", "/money", "/json/journal", "/why/node/ip-10-0-1-58", "/json/explain/node/ip-10-0-1-58", "/why/pod/ml/finetune-1", "/json/explain/pod/ml/finetune-1",
		"/json/decision/20260105T120000-aa", "/why?q=finetune", "/why?q=web", "/?filter=finetune-1", "/json/explain/pod/shop/web-1",
	}
	for len(queue) > 0 && len(visited) < 150 {
		address := queue[0]
		queue = queue[1:]
		if visited[address] {
			continue
		}
		visited[address] = true
		body := look(page, somewhere+address, token).Body.String()
		// The caller's own search text is repeated on the page.
		said := strings.NewReplacer("“finetune”", "", `value="finetune`, "", "finetune-1 ", "").Replace(body)
		if found := names.FindString(said); found != "" && address != "/?filter=finetune-1" {
			t.Errorf("%s names %s", address, found)
		}
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			if address := strings.ReplaceAll(m[1], "&amp;", "&"); !strings.HasPrefix(address, "/assets/") {
				queue = append(queue, address)
			}
		}
	}
	if len(visited) < 60 {
		t.Errorf("only %d addresses were found", len(visited))
	}
	_, whole := pageAt(t, pageOf(t, "../dashboard/testdata/cluster.txt"), "/")
	less := look(page, somewhere+"/", token).Body.String()
	waiting := regexp.MustCompile(`(?s)<p class="value[^>]*>\d+</p><p class="label">pods waiting`)
	if waiting.FindString(less) == "" || waiting.FindString(less) != waiting.FindString(whole) {
		t.Errorf("%q wait, of %q", waiting.FindString(less), waiting.FindString(whole))
	}
	for address, want := range map[string]string{"/waiting": "Pods of other namespaces", "/decisions": "list pods in all of them", "/money": "other namespaces", "/why/pod/shop/web-1": "Pod shop/web-1", "/why/node/ip-10-0-1-58": "This names pods of all namespaces"} {
		if body := look(page, somewhere+address, token).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", address, want)
		}
	}
	if all := look(page, somewhere+"/why/node/ip-10-0-1-58", o.allow(t, "page-all", getsDashboard, listsPods)); all.Code != http.StatusOK {
		t.Errorf("who may list all pods: %d", all.Code)
	}
}
