package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// catalogAudience is the only audience of tokens for the catalog. Tokens for the API server are refused, so users have no reason to show
	// them to a controller.
	catalogAudience = "tenon.sh/catalog"
	// apiServer, in place of an audience, represents the API server's own audiences.
	apiServer = ""
	// callersKept is the time for which the owner of a token is remembered, and that a token is unknown.
	callersKept = time.Minute
	// strangersEvery and strangersAtOnce limit the questions to the API server about new tokens.
	strangersEvery  = 2 * time.Second
	strangersAtOnce = 5
)

var errManyStrangers = errors.New("too many unknown tokens have come: try again in a few seconds")

// newCallers returns an authenticator for tokens of an audience whose owners may get a path. It remembers its answers.
func newCallers(api client.Client, audience, path string) authenticator.Token {
	asks := &reviewer{api: api, audience: audience, path: path, strangers: rate.NewLimiter(rate.Every(strangersEvery), strangersAtOnce)}
	return cache.New(asks, false, callersKept, callersKept)
}

// reviewer asks the API server for the owner of a token, and whether the owner may get the path. Both answers are remembered together.
type reviewer struct {
	api            client.Client
	audience, path string
	strangers      *rate.Limiter
}

// caller is the owner of a token.
type caller struct {
	user.DefaultInfo
	reads bool // whether the caller may get the path

	mu    sync.Mutex      // guards lists
	lists map[string]bool // by namespace, whether the caller may list its pods; "" for all namespaces; nil before the first question
}

// AuthenticateToken asks the API server about the token each time. The bool is true if the token is known.
func (r *reviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !r.strangers.Allow() {
		return nil, false, errManyStrangers
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if r.audience != apiServer {
		review.Spec.Audiences = []string{r.audience}
	}
	if err := r.api.Create(ctx, review); err != nil {
		return nil, false, fmt.Errorf("review a token: %w", err)
	}
	// A review's own error explains why the token is unknown, so it is a normal answer. An API server that does not return audiences has not
	// checked them.
	if !review.Status.Authenticated || r.audience != apiServer && !slices.Contains(review.Status.Audiences, r.audience) {
		return nil, false, nil
	}
	who := review.Status.User
	c := &caller{DefaultInfo: user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string][]string{}}}
	for key, value := range who.Extra {
		c.Extra[key] = value
	}
	var err error
	c.reads, err = mayDo(ctx, r.api, c, authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.path, Verb: "get"},
	})
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: c}, true, nil
}

// mayDo asks the API server whether a caller has the access in spec.
func mayDo(ctx context.Context, api client.Client, c *caller, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User, spec.UID, spec.Groups, spec.Extra = c.Name, c.UID, c.Groups, map[string]authorizationv1.ExtraValue{}
	for key, value := range c.Extra {
		spec.Extra[key] = value
	}
	access := &authorizationv1.SubjectAccessReview{Spec: spec}
	if err := api.Create(ctx, access); err != nil {
		return false, fmt.Errorf("ask what %s may do: %w", c.Name, err)
	}
	return access.Status.Allowed, nil
}

// mayList reports whether a caller may list the pods of a namespace, "" for all. The answer is remembered as long as the caller.
func (c *caller) mayList(ctx context.Context, api client.Client, namespace string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if may, known := c.lists[namespace]; known {
		return may, nil
	}
	may, err := mayDo(ctx, api, c, authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "pods"},
	})
	if err != nil {
		return false, err
	}
	if c.lists == nil {
		c.lists = map[string]bool{}
	}
	c.lists[namespace] = may
	return may, nil
}
