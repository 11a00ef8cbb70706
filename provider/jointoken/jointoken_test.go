package jointoken_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/jointoken"
)

// world is a cluster with a minter.
type world struct {
	*jointoken.Minter
	t      *testing.T
	clock  *clocktesting.FakeClock
	client client.WithWatch
	fail   map[string]error // errors of calls about Secrets, by "create", "update", "delete" and so on
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	scheme := runtime.NewScheme()
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), fail: map[string]error{}}
	w.must(corev1.AddToScheme(scheme))
	w.must(v1.AddToScheme(scheme))
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1.NodeClaim{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.NewTime(w.clock.Now())) // like an API server
			if _, secret := o.(*corev1.Secret); secret && w.fail["create"] != nil {
				return w.fail["create"]
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := w.fail["update "+o.GetLabels()[jointoken.ClaimLabelKey]]; err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
	w.Minter = w.minter(jointoken.Config{Cluster: "demo"})
	return w
}

func (w *world) minter(config jointoken.Config) *jointoken.Minter {
	config.Client, config.Clock = w.client, w.clock
	return jointoken.New(config)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// claim returns a new claim.
func (w *world) claim(name string) *v1.NodeClaim {
	w.t.Helper()
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	w.must(w.client.Create(w.t.Context(), claim))
	return claim
}

func (w *world) register(claim *v1.NodeClaim) {
	w.t.Helper()
	v1.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionTrue, "", "", w.clock.Now())
	w.must(w.client.Status().Update(w.t.Context(), claim))
}

func (w *world) token(claim *v1.NodeClaim) string {
	w.t.Helper()
	token, err := w.Token(w.t.Context(), claim)
	w.must(err)
	return token
}

// secret returns the Secret of a token, nil if there is none.
func (w *world) secret(token string) *corev1.Secret {
	w.t.Helper()
	id, _, _ := strings.Cut(token, ".")
	out := &corev1.Secret{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + id}, out)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return out
}

// left returns the remaining validity of a token.
func (w *world) left(token string) time.Duration {
	w.t.Helper()
	until, err := time.Parse(time.RFC3339, string(w.secret(token).Data["expiration"]))
	w.must(err)
	return until.Sub(w.clock.Now())
}

func TestATokenIsOneThatKubernetesTakes(t *testing.T) {
	w := newWorld(t)
	token := w.token(w.claim("a"))
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token) {
		t.Fatalf("%q is no bootstrap token", token)
	}
	id, part, _ := strings.Cut(token, ".")
	secret := w.secret(token)
	if secret.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("type %s", secret.Type)
	}
	for key, want := range map[string]string{
		"token-id": id, "token-secret": part, "expiration": "2026-03-01T12:30:00Z", "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token", "description": "NodeClaim a of cluster demo. It is deleted when the machine is a node.",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func TestEveryClaimHasATokenOfItsOwn(t *testing.T) {
	w := newWorld(t)
	a, b := w.claim("a"), w.claim("b")
	first, second := w.token(a), w.token(b)
	if first[:6] == second[:6] || first[7:] == second[7:] {
		t.Error("two claims share something")
	}
	if again := w.token(a); again != first {
		t.Error("a claim that is asked about again has another token")
	}
	if restarted, err := w.minter(jointoken.Config{}).Token(t.Context(), a); err != nil || restarted != first {
		t.Errorf("another token after a restart, or %v", err)
	}
	// A claim of the same name is another claim.
	w.must(w.client.Delete(t.Context(), a))
	anew := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "another"}}
	if w.token(anew) == first {
		t.Error("a claim has the token of an older one of its name")
	}
}

func TestWhoAskAtOnceGetTheSameToken(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("a")
	tokens, group := sync.Map{}, sync.WaitGroup{}
	for range 20 {
		group.Go(func() {
			token, err := w.Token(t.Context(), claim)
			if err != nil {
				t.Error(err)
			}
			tokens.Store(token, true)
		})
	}
	group.Wait()
	count := 0
	tokens.Range(func(any, any) bool { count++; return true })
	if count != 1 {
		t.Errorf("%d tokens", count)
	}
}

func TestATokenIsRenewedForAsLongAsItsMachineIsNoNode(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("a")
	token := w.token(claim)
	version := w.secret(token).ResourceVersion
	w.clock.Step(14 * time.Minute)
	w.must(w.Clean(t.Context()))
	if w.secret(token).ResourceVersion != version {
		t.Error("written though more than half of its life is left")
	}
	for range 10 {
		w.clock.Step(16 * time.Minute)
		w.must(w.Clean(t.Context()))
		if left := w.left(token); left != 30*time.Minute {
			t.Fatalf("%s left", left)
		}
	}
	// The caller gets a token that is still valid.
	w.clock.Step(40 * time.Minute)
	if w.token(claim) != token || w.left(token) != 30*time.Minute {
		t.Error("not renewed when it was asked for")
	}
}

func TestATokenGoesWhenItIsOfNoUse(t *testing.T) {
	w := newWorld(t)
	registered, deleted, gone, waiting := w.claim("registered"), w.claim("deleted"), w.claim("gone"), w.claim("waiting")
	tokens := map[string]string{}
	for _, claim := range []*v1.NodeClaim{registered, deleted, gone, waiting} {
		tokens[claim.Name] = w.token(claim)
	}
	expect := func(when string, want ...string) {
		t.Helper()
		w.must(w.Clean(t.Context()))
		var got []string
		for _, name := range []string{"registered", "deleted", "gone", "waiting"} {
			if w.secret(tokens[name]) != nil {
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s there are those of %v, want %v", when, got, want)
		}
	}
	w.must(w.client.Delete(t.Context(), gone))
	expect("at first", "registered", "deleted", "gone", "waiting") // the list of claims may lag behind
	deleted.Finalizers = []string{v1.TerminationFinalizer}
	w.must(w.client.Update(t.Context(), deleted))
	w.must(w.client.Delete(t.Context(), deleted))
	w.clock.Step(5 * time.Minute)
	w.register(registered)
	expect("after 5 minutes", "registered", "waiting")
	w.clock.Step(5 * time.Minute)
	expect("5 minutes after it became a node", "waiting")
}

func TestATokenIsNotRenewedOnceItsMachineIsANode(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("a")
	token := w.token(claim)
	w.clock.Step(20 * time.Minute)
	w.register(claim)
	w.must(w.Clean(t.Context()))
	if left := w.left(token); left != 10*time.Minute {
		t.Errorf("%s left", left)
	}
}

func TestSecretsOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	claim := w.claim("a")
	name := w.secret(w.token(claim)).Name
	foreign := func(name string, labels map[string]string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels}, Type: kind, Data: map[string][]byte{"token-id": []byte("cccccc")}}
	}
	w.must(w.client.Delete(t.Context(), w.secret(name[len("bootstrap-token-"):])))
	others := []*corev1.Secret{
		foreign(name, nil, corev1.SecretTypeBootstrapToken), // it has Tenon's name
		foreign("bootstrap-token-aaaaaa", nil, corev1.SecretTypeBootstrapToken),
		foreign("bootstrap-token-cccccc", map[string]string{jointoken.ClaimLabelKey: "gone"}, corev1.SecretTypeOpaque),
		foreign("bootstrap-token-bbbbbb", map[string]string{jointoken.ClaimLabelKey: "gone"}, corev1.SecretTypeBootstrapToken),
	}
	versions := map[string]string{}
	for _, s := range others {
		w.must(w.client.Create(t.Context(), s))
		versions[s.Name] = s.ResourceVersion
	}
	token := w.token(claim)
	if "bootstrap-token-"+token[:6] == name || w.secret(token) == nil {
		t.Error("the token has the ID of a foreign one")
	}
	if w.token(claim) != token {
		t.Error("another one the second time")
	}
	w.clock.Step(time.Hour)
	w.must(w.Clean(t.Context()))
	for name, version := range versions {
		got := &corev1.Secret{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: name}, got); err != nil || got.ResourceVersion != version {
			t.Errorf("%s: version %s, was %s: %v", name, got.ResourceVersion, version, err)
		}
	}
}

func TestOneTokenThatCannotBeRenewedDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t)
	a, b := w.token(w.claim("a")), w.token(w.claim("b"))
	w.clock.Step(20 * time.Minute)
	w.fail["update uid-of-a"] = errors.New("etcd is away")
	err := w.Clean(t.Context())
	if err == nil || !strings.Contains(err.Error(), "renew join token kube-system/bootstrap-token-"+a[:6]+": etcd is away") {
		t.Errorf("got %v", err)
	}
	if w.left(a) != 10*time.Minute || w.left(b) != 30*time.Minute {
		t.Errorf("%s and %s left", w.left(a), w.left(b))
	}
	// If another process was first, there is no error.
	w.clock.Step(20 * time.Minute)
	w.fail["update uid-of-a"] = apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "a", nil)
	w.must(w.Clean(t.Context()))
}

func TestErrorsSayWhatToDoAndNothingSecret(t *testing.T) {
	w := newWorld(t)
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	_, err := w.Token(t.Context(), &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	says(err, "NodeClaim a: it has no UID")
	claim := w.claim("a")
	_, err = w.minter(jointoken.Config{Groups: []string{"system:masters"}}).Token(t.Context(), claim)
	says(err, `group "system:masters" of join tokens: it must begin with system:bootstrappers:`)
	w.fail["create"] = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", nil)
	_, err = w.Token(t.Context(), claim)
	says(err, "Role in kube-system that allows to get, list, create, update and delete Secrets")
	w.fail["create"] = nil
	token := w.token(claim)
	broken := w.secret(token)
	broken.Data["token-secret"] = []byte("SECRET")
	w.must(w.client.Update(t.Context(), broken))
	_, err = w.Token(t.Context(), claim)
	says(err, "bootstrap-token-"+token[:6]+" cannot be read any more: delete it")
	if strings.Contains(err.Error(), "SECRET") {
		t.Error("the error shows what is secret")
	}
}

func TestLifetimeAndGroupsAreAsConfigured(t *testing.T) {
	w := newWorld(t)
	w.Minter = w.minter(jointoken.Config{Lifetime: 15 * time.Minute, Groups: []string{"system:bootstrappers:a", "system:bootstrappers:b"}})
	token := w.token(w.claim("a"))
	if got := string(w.secret(token).Data["auth-extra-groups"]); got != "system:bootstrappers:a,system:bootstrappers:b" || w.left(token) != 15*time.Minute {
		t.Errorf("groups %s, %s left", got, w.left(token))
	}
}
