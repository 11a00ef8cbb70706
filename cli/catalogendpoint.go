package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

const (
	catalogPath = "/snapshot/catalog"
	// tokenHeader carries the caller's token where the API server's proxy is in between: it takes the usual one away.
	tokenHeader = "X-Tenon-Token"
)

// catalogEndpoint serves what there is to buy, over TLS, to callers that the API server knows and lets read it.
func (p *parts) catalogEndpoint() http.Handler {
	return &catalogEndpoint{
		callers: newCallers(p.mgr.GetClient()),
		document: func(ctx context.Context) (engine.CatalogDocument, error) {
			return p.cluster.CatalogDocument(ctx, p.opt.engineOptions())
		},
		rate:   rate.NewLimiter(5, 20),
		places: make(chan struct{}, 2),
	}
}

// catalogEndpoint costs the controller next to nothing, whoever calls how often.
type catalogEndpoint struct {
	callers  authenticator.Token
	document func(context.Context) (engine.CatalogDocument, error)
	rate     *rate.Limiter // of documents
	places   chan struct{} // filled by documents that are being written
}

// ServeHTTP answers one request.
func (e *catalogEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
		return
	}
	if problem, status := e.refuse(r); problem != "" {
		http.Error(w, problem, status)
		return
	}
	if !e.rate.Allow() {
		tooMany(w)
		return
	}
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	default:
		tooMany(w)
		return
	}
	document, err := e.document(r.Context())
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

func tooMany(w http.ResponseWriter) {
	http.Error(w, "too many requests at a time: try again in a few seconds", http.StatusTooManyRequests)
}

// refuse returns why a caller may not read the catalog. A token that came in clear text is not looked at.
func (e *catalogEndpoint) refuse(r *http.Request) (problem string, status int) {
	if r.TLS == nil {
		return "the catalog is for callers with a token, and tokens are taken over TLS only: use https", http.StatusUnauthorized
	}
	token := r.Header.Get(tokenHeader)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	if token == "" {
		return "a token is needed: Authorization: Bearer, or " + tokenHeader, http.StatusUnauthorized
	}
	response, known, err := e.callers.AuthenticateToken(r.Context(), token)
	switch {
	case errors.Is(err, errManyStrangers):
		return err.Error(), http.StatusTooManyRequests
	case err != nil: // which is nothing that callers could use, nor for everybody to read
		if r.Context().Err() == nil {
			log.FromContext(r.Context()).Error(err, "asking the API server who wants to read the catalog")
		}
		return "the API server does not say who you are: try again later", http.StatusServiceUnavailable
	case !known:
		return "the API server does not know this token as one for " + catalogAudience, http.StatusUnauthorized
	}
	if c, ok := response.User.(*caller); !ok || !c.reads {
		return response.User.GetName() + " may not get " + catalogPath, http.StatusForbidden
	}
	return "", 0
}
