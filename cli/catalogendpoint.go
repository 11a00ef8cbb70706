package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

const (
	catalogPath = "/snapshot/catalog"
	// tokenHeader carries the caller's token through the API server's proxy, because the proxy removes the usual header.
	tokenHeader = "X-Tenon-Token"
)

// catalogEndpoint serves the catalog.
func (p *parts) catalogEndpoint() http.Handler {
	return newKnownEndpoint(newCallers(p.mgr.GetClient(), catalogAudience, catalogPath), catalogPath, catalogText(func(ctx context.Context) (engine.CatalogDocument, error) {
		return p.cluster.CatalogDocument(ctx, p.opt.engineOptions())
	}))
}

func catalogText(document func(context.Context) (engine.CatalogDocument, error)) func(*http.Request) ([]byte, string, error) {
	return func(r *http.Request) ([]byte, string, error) {
		d, err := document(r.Context())
		if err != nil {
			return nil, "", err
		}
		text, err := yaml.Marshal(d)
		return text, "application/yaml", err
	}
}

func newKnownEndpoint(callers authenticator.Token, path string, document func(*http.Request) ([]byte, string, error)) *knownEndpoint {
	return &knownEndpoint{callers: callers, path: path, document: document, rate: rate.NewLimiter(5, 20)}
}

// knownEndpoint serves a document, over TLS, to callers that the API server knows and that may get its path. It limits the rate, so that
// callers cannot load the controller.
type knownEndpoint struct {
	callers  authenticator.Token
	path     string
	document func(*http.Request) (text []byte, mediaType string, err error)
	rate     *rate.Limiter // limits the rate of documents
}

// ServeHTTP answers one request.
func (e *knownEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
		return
	}
	if _, problem, status := admit(r, e.callers, catalogAudience, e.path); problem != "" {
		refuse(w, problem, status)
		return
	}
	if !e.rate.Allow() {
		tooMany(w)
		return
	}
	text, mediaType, err := e.document(r)
	if err != nil {
		status := http.StatusInternalServerError
		if wrong := wrongQuery(""); errors.As(err, &wrong) {
			status = http.StatusBadRequest
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(text)
}

// wrongQuery is the error for a query that cannot be parsed.
type wrongQuery string

// Error returns the text.
func (q wrongQuery) Error() string { return string(q) }

func tooMany(w http.ResponseWriter) {
	refuse(w, "too many requests at a time: try again in a few seconds", http.StatusTooManyRequests)
}

// refuse answers with a problem, and with the time until the next attempt if there were too many callers.
func refuse(w http.ResponseWriter, problem string, status int) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(int(strangersEvery.Seconds())))
	}
	http.Error(w, problem, status)
}

// needsTLS is the answer to a request in clear text.
const needsTLS = "this is for callers with a token, and tokens are taken over TLS only: use https"

// admit returns the caller of a request, or a problem if the caller may not get a path. It ignores a token that was sent in clear text.
func admit(r *http.Request, callers authenticator.Token, audience, path string) (c *caller, problem string, status int) {
	if r.TLS == nil {
		return nil, needsTLS, http.StatusUnauthorized
	}
	token := r.Header.Get(tokenHeader)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	if token == "" {
		return nil, "a token is needed: Authorization: Bearer, or " + tokenHeader, http.StatusUnauthorized
	}
	response, known, err := callers.AuthenticateToken(r.Context(), token)
	switch {
	case errors.Is(err, errManyStrangers):
		return nil, err.Error(), http.StatusTooManyRequests
	case err != nil: // callers cannot use the error, and it must not be public
		if r.Context().Err() == nil {
			log.FromContext(r.Context()).Error(err, "asking the API server who wants to read", "path", path)
		}
		return nil, "the API server does not say who you are: try again later", http.StatusServiceUnavailable
	case !known:
		return nil, "the API server does not know this token as one for " + cmp.Or(audience, "itself"), http.StatusUnauthorized
	}
	c, ok := response.User.(*caller)
	if !ok || !c.reads {
		return nil, response.User.GetName() + " may not get " + path, http.StatusForbidden
	}
	return c, "", 0
}
