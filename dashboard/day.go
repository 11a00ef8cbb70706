package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

const (
	dayPath     = "/whatif/day"
	dayEndPath  = "/whatif/day/cancel"
	dayPicture  = "/whatif/day.svg"
	dayDocument = "/json/day"
	// comparedText, as the parameter from of an address, opens the editor with the change that was compared last.
	comparedText = "compared"
	// longestDay is the longest time for a comparison; lookSoon is how often a waiting page looks for the result.
	longestDay = time.Hour
	lookSoon   = time.Second
)

// A Day is recorded pods, with which the present cluster can be compared with a changed one.
type Day struct {
	// Name describes the recorded pods and the time of the record, or says why there are none now.
	Name func() string
	// Check returns the objects of a text and its mistakes, and nothing else.
	Check func(text []byte, stop func() bool) (*Outcome, error)
	// Compare lets the pods come and go on both clusters, and reports after each simulated hour how many hours of all are done. It
	// returns soon after ctx ends, and leaves nothing running.
	Compare func(ctx context.Context, text []byte, hours func(done, all int)) (*Comparison, error)
}

// A Comparison is the outcome of a day on the present cluster and with a change, in the words of tenon simulate.
type Comparison struct {
	// Document is that of tenon simulate --change -o json, Picture the SVG of --picture.
	Document, Picture []byte
	Headline          string
	Parts             []Part
	Notes             []string
	// Commands print the same.
	Commands string
	// Day is the Name of the compared Day.
	Day string
}

// A dayRun is the comparison that runs, or the last one.
type dayRun struct {
	Text         string
	Begun, Ended time.Time // Ended is zero as long as it runs
	Done, All    int       // hours
	Cancelled    bool
	Problem      string // why there is no result
	*Comparison
	cancel context.CancelFunc
	ended  chan struct{} // closed at its end
}

// Shown identifies the version of the picture to show.
func (r *dayRun) Shown() string { return fmt.Sprintf("%s?%d", dayPicture, r.Ended.UnixNano()) }

// Says returns the text that screen readers announce. It does not change with each simulated hour.
func (r *dayRun) Says() string {
	switch {
	case r.Ended.IsZero():
		return "The comparison is running."
	case r.Cancelled:
		return "The comparison was cancelled."
	case r.Problem != "":
		return r.Problem
	}
	return "The comparison is done. " + r.Headline
}

// days holds the only comparison of a server, for all its readers.
type days struct {
	mu   sync.Mutex // guards what last points at, and the next
	last *dayRun    // nil before the first
	// changes counts the changes of the visible state.
	changes int
}

// newest returns a copy of the comparison, nil if there is none.
func (d *days) newest() (*dayRun, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return nil, d.changes
	}
	run := *d.last
	return &run, d.changes
}

// begin begins a comparison, and reports false if one is running.
func (s *server) begin(day *Day, text []byte) bool {
	d := &s.days
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && d.last.Ended.IsZero() {
		return false
	}
	ctx, cancel := context.WithTimeout(s.reader.ctx, longestDay)
	run := &dayRun{Text: string(text), Begun: s.reader.clock.Now(), cancel: cancel, ended: make(chan struct{})}
	d.last = run
	d.changes++
	go func() {
		defer close(run.ended)
		defer cancel()
		out, err := compare(ctx, day, text, func(done, all int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			run.Done, run.All = done, all
			d.changes++
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		run.Ended = s.reader.clock.Now()
		d.changes++
		switch {
		case run.Cancelled:
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			run.Problem = fmt.Sprintf("It was not done within %s, so it was given up. tenon simulate takes the time that it needs.", longestDay)
		case err != nil:
			run.Problem = capital(err.Error()) + "."
		default:
			run.Comparison = out
		}
	}()
	return true
}

// compare calls Compare. A panic in it fails this comparison only.
func compare(ctx context.Context, day *Day, text []byte, hours func(done, all int)) (out *Comparison, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Printf("dashboard: comparing a change over a day has failed: %v\n%s", p, debug.Stack())
			err = errors.New("comparing has failed, and the log of this page's server says why")
		}
	}()
	return day.Compare(ctx, text, hours)
}

// dayPage takes the form of the screen, and begins to compare the cluster changed by the form's text with the present cluster.
func (s *server) dayPage(page *screen) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, v, problem := s.postedTo(w, r)
		if v == nil {
			return
		}
		if v.Day == nil {
			refuse(w, v.NoDay, http.StatusNotFound)
			return
		}
		out, refusal, status := s.try(r.Context(), v.Day.Check, text, isComplete)
		switch {
		case out == nil:
			refuseTry(w, refusal, status)
		case len(out.Mistakes) > 0:
			s.answerTry(w, r, page, v, problem, text, "", 0, out)
		case !s.begin(v.Day, text):
			s.answerTry(w, r, page, v, problem, text, "A comparison is running, and there is one at a time: it is shown below. Wait for its end, or cancel it.", http.StatusConflict, nil)
		default:
			http.Redirect(w, r, whatIfPath+"?from="+comparedText+"#day", http.StatusSeeOther)
		}
	}
}

// endDay cancels the comparison, and answers when it has ended.
func (s *server) endDay(w http.ResponseWriter, r *http.Request) {
	_, v, _ := s.postedTo(w, r)
	if v == nil {
		return
	}
	if v.Day == nil {
		refuse(w, v.NoDay, http.StatusNotFound)
		return
	}
	d := &s.days
	d.mu.Lock()
	run := d.last
	if run != nil && run.Ended.IsZero() {
		run.Cancelled = true
		run.cancel()
	}
	d.mu.Unlock()
	if run != nil {
		select {
		case <-run.ended:
		case <-r.Context().Done():
		}
	}
	http.Redirect(w, r, whatIfPath+"?from="+comparedText+"#day", http.StatusSeeOther)
}

// compared returns the result of the newest comparison, if the reader may see it.
func (s *server) compared(v *view) (*Comparison, error) {
	if v.Day == nil {
		return nil, errors.New(v.NoDay)
	}
	run, _ := s.days.newest()
	if run == nil || run.Comparison == nil {
		return nil, errors.New("nothing has been compared yet")
	}
	return run.Comparison, nil
}

func (s *server) dayDocument(v *view, _ *http.Request) ([]byte, error) {
	c, err := s.compared(v)
	if err != nil {
		return nil, err
	}
	return c.Document, nil
}

// dayPicture serves the picture of the newest comparison. The picture may use the style inside it, and nothing else.
func (s *server) dayPicture(w http.ResponseWriter, r *http.Request) {
	v, _ := s.seen(w, r)
	if v == nil {
		return
	}
	c, err := s.compared(v)
	if err != nil {
		refuse(w, capital(err.Error())+".", http.StatusNotFound)
		return
	}
	_, style, _ := bytes.Cut(c.Picture, []byte("<style>"))
	style, _, _ = bytes.Cut(style, []byte("</style>"))
	hash := sha256.Sum256(style)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", "image/svg+xml")
	send(w, r, http.StatusOK, visible(c.Picture))
}
