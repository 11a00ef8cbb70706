package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// mostText is the most bytes of a text to try, mostForm the most bytes of a form with this text.
	mostText = 256 << 10
	mostForm = 3*mostText + 4<<10
	// usualTryLimit is how long an answer may take unless the options say.
	usualTryLimit = 2 * time.Second
	usualTries    = 2
)

// takesPost reports whether an address takes a POST. A POST asks a question that is too long for an address, and changes nothing in the
// cluster.
func takesPost(path string) bool {
	return slices.Contains([]string{whatIfPath, whatIfDocument}, path)
}

// posted returns the text of a request, or the problem of the request.
func posted(w http.ResponseWriter, r *http.Request, types ...string) (body []byte, problem string, status int) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(types, kind) {
		return nil, "Send it as " + strings.Join(types, " or ") + ".", http.StatusUnsupportedMediaType
	}
	most := mostText
	if kind == formType {
		most = mostForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, int64(most))
	if kind == formType {
		err = r.ParseForm()
		body = []byte(strings.ReplaceAll(r.PostForm.Get("text"), "\r\n", "\n"))
	} else {
		body, err = io.ReadAll(r.Body)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large || len(body) > mostText {
		return nil, fmt.Sprintf("The text is too long: at most %d KiB can be tried.", mostText>>10), http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, "The request cannot be read.", http.StatusBadRequest
	}
	return body, "", 0
}

const formType = "application/x-www-form-urlencoded"

// seen returns the part of the newest picture that the sender of a request may see, or nil if seen has refused the request.
func (s *server) seen(w http.ResponseWriter, r *http.Request) (v *view, problem string) {
	v, problem = s.reader.look(r.Context())
	v, err := s.seenBy(r, v)
	if err != nil {
		refuse(w, capital(err.Error())+".", http.StatusServiceUnavailable)
		return nil, ""
	}
	return v, problem
}

// tryPage answers the form of the screen with the screen.
func (s *server) tryPage(page *screen) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		text, refusal, status := posted(w, r, formType)
		if refusal != "" {
			refuse(w, refusal, status)
			return
		}
		v, problem := s.seen(w, r)
		if v == nil {
			return
		}
		out, refusal, status := s.try(r.Context(), v.Try, text, isComplete)
		if out == nil && status != http.StatusGatewayTimeout {
			refuseTry(w, refusal, status)
			return
		}
		s.answerTry(w, r, page, v, problem, text, refusal, out)
	}
}

// answerTry shows the screen with the text and the outcome: a refusal, an outcome, or a part of an outcome with the reason why the rest is
// missing.
func (s *server) answerTry(w http.ResponseWriter, r *http.Request, page *screen, v *view, problem string, text []byte, refusal string, out *Outcome) {
	d := s.newWhatIfData(v, r.PostForm.Get("from"))
	d.Text, d.Problem = string(text), refusal
	asked := *page
	asked.name = "" // it belongs to the other
	asked.fill = func(*http.Request, *view) (content, error) {
		c := d.content()
		if out == nil {
			return c, nil
		}
		return c, d.answer(out)
	}
	answer, status, err := s.render(r, v, problem, "", s.reader.age(), &asked)
	if err != nil {
		refuse(w, "This page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(w, r, status, answer)
}

// tryDocument answers a text with the document of the plan.
func (s *server) tryDocument(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	text, refusal, status := posted(w, r, "application/yaml", "application/json")
	if refusal != "" {
		refuse(w, refusal, status)
		return
	}
	v, _ := s.seen(w, r)
	if v == nil {
		return
	}
	out, refusal, status := s.try(r.Context(), v.Try, text, hasPlan)
	if refusal != "" {
		refuseTry(w, refusal, status)
		return
	}
	if len(out.Mistakes) > 0 {
		var lines []string
		for _, m := range out.Mistakes {
			lines = append(lines, m.String())
		}
		refuse(w, strings.Join(lines, "\n"), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, r, http.StatusOK, out.Plan)
}

// String returns the mistake in one line.
func (m Mistake) String() string {
	text := m.Text
	if m.Field != "" {
		text = m.Field + ": " + text
	}
	if m.Line > 0 {
		text = fmt.Sprintf("line %d: %s", m.Line, text)
	}
	return text
}

func refuseTry(w http.ResponseWriter, problem string, status int) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	refuse(w, problem, status)
}

// isComplete reports whether the outcome has no more parts, hasPlan whether the document of its plan is complete.
func isComplete(o *Outcome) bool { return o.Rest == nil }
func hasPlan(o *Outcome) bool    { return o.Disrupts || o.Rest == nil }

// try waits for its turn and asks the picture, until a part of the outcome is enough. If the answer takes too long, or the request has
// ended, try tells the computation to stop. The computation keeps its turn until it has stopped, so there are never more computations than
// turns. If the time is too short, out is nil, or has only the first parts of the outcome.
func (s *server) try(ctx context.Context, ask func(text []byte, stop func() bool) (*Outcome, error), text []byte, enough func(*Outcome) bool) (out *Outcome, problem string, status int) {
	if ask == nil {
		return nil, "Nothing can be tried on this picture.", http.StatusNotFound
	}
	turn := time.NewTimer(patienceForTurn)
	defer turn.Stop()
	select {
	case s.tries <- struct{}{}:
	case <-turn.C:
		return nil, "Too many others try something now. Try again in a moment.", http.StatusServiceUnavailable
	case <-ctx.Done():
		return nil, "Nobody waits for the answer.", http.StatusServiceUnavailable
	}
	type answer struct {
		out *Outcome
		err error
	}
	var stop atomic.Bool
	done := make(chan answer, 4) // three parts, or a failure
	go func() {
		defer func() { <-s.tries }()
		defer func() {
			if p := recover(); p != nil { // as an HTTP server does for a handler: the program goes on
				log.Printf("dashboard: planning a change has failed: %v\n%s", p, debug.Stack())
				done <- answer{err: errors.New("planning has failed, and the log of this page's server says why")}
			}
		}()
		out, err := ask(text, stop.Load)
		for err == nil && !enough(out) && !stop.Load() {
			done <- answer{out, nil}
			out, err = out.Rest()
		}
		done <- answer{out, err}
	}()
	limit := time.NewTimer(s.tryLimit)
	defer limit.Stop()
	for {
		select {
		case a := <-done:
			if a.err != nil {
				return nil, capital(a.err.Error()) + ".", http.StatusInternalServerError
			}
			if out = a.out; enough(out) {
				return out, "", 0
			}
		case <-limit.C:
			stop.Store(true)
			what, command := "There was no answer", "plan --disrupt"
			switch {
			case out == nil:
			case out.Disrupts:
				what, command = "The bill of the complete change could not be found out", "savings"
			default:
				what = "Which nodes would go could not be found out"
			}
			return out, fmt.Sprintf("%s within %g s, so it was given up. tenon %s -f snapshot.yaml --change changed.yaml takes the time that it needs.", what, s.tryLimit.Seconds(), command), http.StatusGatewayTimeout
		case <-ctx.Done():
			stop.Store(true)
			return nil, "Nobody waits for the answer.", http.StatusServiceUnavailable
		}
	}
}
