package cli

import (
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"
)

const (
	catalogPath = "/snapshot/catalog"
	// tokenHeader carries the caller's token where the API server's proxy is in between: it takes the usual one away.
	tokenHeader = "X-Tenon-Token"
)

// catalogEndpoint serves what there is to buy to callers that the API server knows and lets read it.
func (p *parts) catalogEndpoint() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
			return
		}
		if problem, status := p.authorize(r); problem != "" {
			http.Error(w, problem, status)
			return
		}
		document, err := p.cluster.CatalogDocument(r.Context(), p.opt.engineOptions())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text, err := yaml.Marshal(document)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(text)
	}
}

// authorize asks the API server who the caller is and whether they may read the catalog. It returns why not.
func (p *parts) authorize(r *http.Request) (problem string, status int) {
	token := r.Header.Get(tokenHeader)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	if token == "" {
		return "a token is needed: Authorization: Bearer, or " + tokenHeader, http.StatusUnauthorized
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := p.mgr.GetClient().Create(r.Context(), review); err != nil {
		return fmt.Sprintf("ask the API server who you are: %v", err), http.StatusInternalServerError
	}
	if !review.Status.Authenticated {
		return "the API server does not know this token", http.StatusUnauthorized
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: catalogPath, Verb: "get"},
	}}
	if err := p.mgr.GetClient().Create(r.Context(), access); err != nil {
		return fmt.Sprintf("ask the API server what you may do: %v", err), http.StatusInternalServerError
	}
	if !access.Status.Allowed {
		return fmt.Sprintf("%s may not get %s", user.Username, catalogPath), http.StatusForbidden
	}
	return "", 0
}
