package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// catalogAudience is what tokens for the catalog are for, and for nothing else. One for the API server is refused, so that
	// nobody has a reason to show it to a controller.
	catalogAudience = "tenon.sh/catalog"
	// callersKept is how long it is remembered who a token belongs to, or that nobody knows it.
	callersKept = time.Minute
	// strangersEvery and strangersAtOnce bound how often the API server is asked about tokens that were not seen before.
	strangersEvery  = 2 * time.Second
	strangersAtOnce = 5
)

var errManyStrangers = errors.New("too many unknown tokens have come: try again in a few seconds")

// newCallers tells who has a token and may get a path, and remembers it.
func newCallers(api client.Client, path string) authenticator.Token {
	asks := &reviewer{api: api, path: path, strangers: rate.NewLimiter(rate.Every(strangersEvery), strangersAtOnce)}
	return cache.New(asks, false, callersKept, callersKept)
}

// reviewer asks the API server who has a token, and whether they may get the path: the answers are remembered together.
type reviewer struct {
	api       client.Client
	path      string
	strangers *rate.Limiter
}

// caller is somebody with a token.
type caller struct {
	user.DefaultInfo
	reads bool // the path
}

// AuthenticateToken does not remember anything.
func (r *reviewer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if !r.strangers.Allow() {
		return nil, false, errManyStrangers
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{catalogAudience}}}
	if err := r.api.Create(ctx, review); err != nil {
		return nil, false, fmt.Errorf("review a token: %w", err)
	}
	// A review's own error says why it knows the token not, which is an answer like any other. An API server that does not
	// mention audiences has not looked at them.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, catalogAudience) {
		return nil, false, nil
	}
	who := review.Status.User
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.path, Verb: "get"},
	}}
	for key, value := range who.Extra {
		access.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	if err := r.api.Create(ctx, access); err != nil {
		return nil, false, fmt.Errorf("ask what %s may do: %w", who.Username, err)
	}
	c := &caller{DefaultInfo: user.DefaultInfo{Name: who.Username}, reads: access.Status.Allowed}
	return &authenticator.Response{User: c}, true, nil
}
