package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/dashboard"
	"tenon.sh/journal"
	"tenon.sh/scenario"
)

const (
	// dashboardPath is the path that users must be allowed to get to see the dashboard, for all its pages and documents.
	dashboardPath = "/dashboard"
	// leaderEvery is the time between two pictures of the leader while a user looks.
	leaderEvery = 10 * time.Second
	// mostNamespacesAsked is the largest number of namespaces for which the API server is asked whether a user may list their pods. For
	// others, the answer is no.
	mostNamespacesAsked = 200
)

// dashboardEndpoint serves the dashboard of the cluster that this process leads.
func (p *parts) dashboardEndpoint(ctx context.Context) http.Handler {
	api := p.mgr.GetClient()
	return newPageEndpoint(ctx, api, newCallers(api, apiServer, dashboardPath), p.picture)
}

// picture makes the dashboard's current picture. It uses one thread, because the controller's passes come first.
func (p *parts) picture(ctx context.Context) (*dashboard.Picture, error) {
	s, err := p.cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	options := p.opt.engineOptions()
	options.Threads = 1
	gates := p.opt.FeatureGates
	reading := &scenario.Reading{Snapshot: s, Options: options, Ignored: map[string]bool{overlayKind: !gates[overlayKind], bufferKind: !gates[bufferKind]}}
	picture, err := newPicture(cmp.Or(p.opt.ClusterName, "this cluster"), reading)
	if err != nil {
		return nil, err
	}
	picture.Savings = savingsOf(planOptions{}, reading)
	return picture, showJournal(picture, p.journal.Document(journal.Filter{Most: mostDecisions}))
}

func newPageEndpoint(ctx context.Context, api client.Client, callers authenticator.Token, source dashboard.Source) *pageEndpoint {
	return &pageEndpoint{ctx: ctx, api: api, callers: callers, source: source, rate: rate.NewLimiter(50, 200)}
}

// pageEndpoint serves the dashboard, over TLS, to callers that the API server knows and that may get dashboardPath. Only callers who may list
// pods see their names. The cluster is read only while a user looks.
type pageEndpoint struct {
	ctx     context.Context // ends the reading
	api     client.Client
	callers authenticator.Token
	source  dashboard.Source
	rate    *rate.Limiter // limits the rate of requests

	mu   sync.Mutex // guards page
	page http.Handler
}

// ServeHTTP answers one request.
func (e *pageEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, problem, status := admit(r, e.callers, apiServer, dashboardPath)
	if problem != "" {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		refuse(w, problem, status)
		return
	}
	if !e.rate.Allow() {
		tooMany(w)
		return
	}
	page, err := e.open()
	if err != nil {
		log.FromContext(r.Context()).Error(err, "reading the cluster for the dashboard")
		http.Error(w, "the cluster cannot be read: try again later", http.StatusServiceUnavailable)
		return
	}
	page.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
}

// callerKey is the key of the caller in a request's context.
type callerKey struct{}

// open returns the page, and makes it at the first call.
func (e *pageEndpoint) open() (http.Handler, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.page != nil {
		return e.page, nil
	}
	reader, err := dashboard.NewReader(e.ctx, e.source, leaderEvery, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	e.page, err = dashboard.Handler(reader, dashboard.Options{AtOnce: 2, Tries: 1, Sight: e.sight})
	return e.page, err
}

// errNoSight is the error for readers if the API server does not answer.
var errNoSight = errors.New("the API server does not say which pods you may list: try again later")

// sight returns which pods the sender of a request may list.
func (e *pageEndpoint) sight(r *http.Request, namespaces []string) (dashboard.Sight, error) {
	c := r.Context().Value(callerKey{}).(*caller) // ServeHTTP admits no other request
	out, err := e.sightOf(r.Context(), c, namespaces)
	if err != nil {
		if r.Context().Err() == nil {
			log.FromContext(r.Context()).Error(err, "asking the API server which pods somebody may list")
		}
		return dashboard.Sight{}, errNoSight
	}
	return out, nil
}

func (e *pageEndpoint) sightOf(ctx context.Context, c *caller, namespaces []string) (out dashboard.Sight, err error) {
	if out.All, err = c.mayList(ctx, e.api, ""); err != nil || out.All {
		return out, err
	}
	for _, namespace := range namespaces[:min(len(namespaces), mostNamespacesAsked)] {
		may, err := c.mayList(ctx, e.api, namespace)
		if err != nil {
			return out, err
		}
		if may {
			out.Namespaces = append(out.Namespaces, namespace)
		}
	}
	return out, nil
}
