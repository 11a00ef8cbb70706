package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"tenon.sh/journal"
)

// journalPath is the URL path at which the leader serves its journal.
const journalPath = "/journal"

// keepJournal reads the journal's folder, if there is one, writes to it until ctx ends, and serves the journal.
func (p *parts) keepJournal(ctx context.Context, group *errgroup.Group) {
	if p.opt.Journal != "" {
		keeper := newKeeper(p.journal, p.opt.Journal, p.log)
		keeper.Restore()
		group.Go(func() error { return keeper.Run(ctx) })
	}
	var handler http.Handler = newKnownEndpoint(newCallers(p.mgr.GetClient(), catalogAudience, journalPath), journalPath, journalText(p.journal))
	p.ports.journalHandler.Store(&handler)
}

func newKeeper(j *journal.Journal, dir string, log logr.Logger) *journal.Keeper {
	log = log.WithValues("folder", dir)
	return &journal.Keeper{Journal: j, Dir: dir, Say: func(says string, err error) {
		if err != nil {
			log.Error(err, says)
			return
		}
		log.Info(says)
	}}
}

// journalText returns a function that writes the document of tenon journal -o json. The query may give a least time (since) and a largest
// number of records (most), the newest ones.
func journalText(j *journal.Journal) func(*http.Request) ([]byte, string, error) {
	return func(r *http.Request) ([]byte, string, error) {
		var f journal.Filter
		query := r.URL.Query()
		if text := query.Get("since"); text != "" {
			since, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return nil, "", wrongQuery(fmt.Sprintf("since=%q is no time such as 2026-01-31T12:00:00Z", text))
			}
			f.Since = since
		}
		if text := query.Get("most"); text != "" {
			most, err := strconv.Atoi(text)
			if err != nil || most < 0 {
				return nil, "", wrongQuery(fmt.Sprintf("most=%q is no number of decisions", text))
			}
			f.Most = most
		}
		var text bytes.Buffer
		err := writeRecord(&text, journalKind, j.Document(f))
		return text.Bytes(), "application/json", err
	}
}
