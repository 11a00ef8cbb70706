package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"tenon.sh/engine"
)

// Options say how the page is served. The zero value is for a reader on the same machine.
type Options struct {
	// Hosts are names, beside those of the loopback, under which browsers reach the page.
	Hosts []string
	// AtOnce is how many pages are made at a time. Other requests wait a moment, and are then refused. 0 means 4.
	AtOnce int
	// Sight returns the pods whose names the sender of a request may see, given the namespaces with pods. It is for a server that knows
	// the sender: then Hosts are not checked, because no browser sends the sender's identity by itself. An error is answered with 503.
	// nil shows everything.
	Sight func(r *http.Request, namespaces []string) (Sight, error)
	// Token, unless empty, must come with every request: see withToken. It is for a server that does not know the sender.
	Token string
	// Tries is how many changes are planned at a time, TryLimit the longest time for one. 0 means 2, and 2 s.
	Tries    int
	TryLimit time.Duration
}

// server serves the pages of one reader.
type server struct {
	reader   *Reader
	assets   *assets
	screens  []*screen
	turns    chan struct{}
	tries    chan struct{}
	tryLimit time.Duration
	sight    func(*http.Request, []string) (Sight, error)
}

// A screen is one page.
type screen struct {
	name, path string // in the list of screens, or of the screen that a page without a name belongs to
	patterns   []string
	// fill takes the content of the page from the picture.
	fill func(r *http.Request, v *view) (content, error)
}

// A content is the content of a screen with its title, and a status other than 200 if something is wrong.
type content struct {
	title  string
	shows  templ.Component
	status int
}

// Handler serves the pages, and the documents behind them as JSON.
func Handler(reader *Reader, opt Options) (http.Handler, error) {
	a, err := readAssets()
	if err != nil {
		return nil, fmt.Errorf("read the files of the page: %w", err)
	}
	if opt.AtOnce == 0 {
		opt.AtOnce = 4
	}
	s := &server{reader: reader, assets: a, turns: make(chan struct{}, opt.AtOnce), sight: opt.Sight,
		tries: make(chan struct{}, cmp.Or(opt.Tries, usualTries)), tryLimit: cmp.Or(opt.TryLimit, usualTryLimit)}
	mux := http.NewServeMux()
	for _, make := range []func() *screen{nodesScreen, waitingScreen, decisionsScreen, moneyScreen, s.whatIfScreen, whyScreen, decisionScreen, storyScreen, missingScreen} {
		page := make()
		s.screens = append(s.screens, page)
		for _, pattern := range page.patterns {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.page(w, r, page) })
		}
		if page.path == whatIfPath {
			mux.HandleFunc("POST "+whatIfPath, s.tryPage(page))
		}
	}
	mux.HandleFunc("GET /assets/{name}", a.serve)
	mux.HandleFunc("GET /json/nodes", s.document(func(v *view, _ *http.Request) ([]byte, error) { return v.Nodes, nil }))
	mux.HandleFunc("GET /json/plan", s.document(func(v *view, _ *http.Request) ([]byte, error) { return v.Plan, nil }))
	mux.HandleFunc("GET /json/savings", s.document(savingsText))
	mux.HandleFunc("GET /json/journal", s.document(func(v *view, _ *http.Request) ([]byte, error) {
		if v.Journal == nil {
			return nil, errors.New(v.NoJournal)
		}
		return v.Journal, nil
	}))
	mux.HandleFunc("GET /json/decision/{id}", s.document(decisionDocument))
	mux.HandleFunc("GET /json/explain/{kind}/{name...}", s.document(explainDocument))
	mux.HandleFunc("POST "+whatIfDocument, s.tryDocument)
	return guard(opt.Hosts, opt.Sight != nil, withToken(opt.Token, mux)), nil
}

// lookSoon is how often a page with old data looks for newer data.
const lookSoon = time.Second

// patienceForTurn is how long a page waits for its turn.
const patienceForTurn = 5 * time.Second

// turn waits until a page may be made. If the wait is too long, turn refuses the request and done is nil.
func (s *server) turn(w http.ResponseWriter, r *http.Request) (done func()) {
	timer := time.NewTimer(patienceForTurn)
	defer timer.Stop()
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }
	case <-timer.C:
	case <-r.Context().Done():
	}
	w.Header().Set("Retry-After", "5")
	refuse(w, "Too many pages are asked for at once. Try again in a moment.", http.StatusServiceUnavailable)
	return nil
}

// page makes a page and sends it. The page is complete before its first byte is sent, so a slow client holds up no other.
func (s *server) page(w http.ResponseWriter, r *http.Request, page *screen) {
	v, problem := s.reader.look(r.Context())
	v, err := s.seenBy(r, v)
	if err != nil {
		refuse(w, capital(err.Error())+".", http.StatusServiceUnavailable)
		return
	}
	stale := s.reader.age()
	tag := s.tag(v, problem, stale, r)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	done := s.turn(w, r)
	if done == nil {
		return
	}
	text, status, err := s.render(r, v, problem, tag, stale, page)
	done()
	if err != nil {
		w.Header().Del("ETag")
		refuse(w, "This page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(w, r, status, text)
}

// tag returns a hash of the content of an address. Pages show ages, so the hash changes every minute, and every second while the picture is stale.
func (s *server) tag(v *view, problem string, stale time.Duration, r *http.Request) string {
	sum := fnv.New64a()
	fmt.Fprint(sum, s.assets.build, v.version, v.At.Unix()/60, problem, stale.Truncate(time.Second), r.URL.RequestURI())
	if strings.HasPrefix(r.URL.Path, decisionsPath) || r.URL.Path == moneyPath {
		fmt.Fprint(sum, v.journalVersion)
	}
	return fmt.Sprintf(`"%016x"`, sum.Sum64())
}

func (s *server) render(r *http.Request, v *view, problem, tag string, stale time.Duration, page *screen) ([]byte, int, error) {
	c, err := page.fill(r, v)
	if err != nil {
		return nil, 0, err
	}
	f := newFrame(v)
	f.Title, f.Problem, f.Tag, f.Build, f.assets = c.title, problem, tag, s.assets.build, s.assets
	f.Now, f.Stale, f.Every = s.reader.clock.Now(), stale, s.reader.every.Milliseconds()
	if stale > 0 {
		f.Every = lookSoon.Milliseconds()
	}
	for _, other := range s.screens {
		if other.name != "" {
			f.Screens = append(f.Screens, frameLink{other.name, other.path, other == page || page.name == "" && other.path == page.path})
		}
	}
	var out bytes.Buffer
	if err := wholePage(f, c.shows).Render(r.Context(), &out); err != nil {
		return nil, 0, err
	}
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return visible(out.Bytes()), c.status, nil
}

// document serves JSON for programs. An object that does not exist is answered with 404, in the words of the command.
func (s *server) document(of func(*view, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := s.reader.look(r.Context())
		v, err := s.seenBy(r, v)
		if err != nil {
			refuse(w, capital(err.Error())+".", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Vary", "Accept-Encoding")
		done := s.turn(w, r)
		if done == nil {
			return
		}
		text, err := of(v, r)
		done()
		if err != nil {
			refuse(w, capital(err.Error())+".", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		send(w, r, http.StatusOK, text)
	}
}

// visible spells invisible characters in the texts of a page, as commands do, except line ends and tabs.
func visible(page []byte) []byte { return []byte(engine.Visible(string(page), "\n\t")) }

// refuse answers with a sentence.
func refuse(w http.ResponseWriter, says string, status int) {
	http.Error(w, engine.Visible(says, "\n"), status)
}

// send writes an answer, compressed if the client accepts it and it saves enough.
func send(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	if len(text) > 1<<10 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, 4) // the level is a valid one; more costs more than it saves
		_, _ = z.Write(text)                 // a buffer takes everything
		_ = z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		text = out.Bytes()
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // a client that is gone needs no answer
	}
}
