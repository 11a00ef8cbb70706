package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const decisionsPath = "/decisions"

func decisionsScreen() *screen {
	return &screen{name: "Decisions", path: decisionsPath, patterns: []string{"GET " + decisionsPath}, fill: fillDecisions}
}

// decisionScreen shows one decision.
func decisionScreen() *screen {
	return &screen{path: decisionsPath, patterns: []string{"GET " + decisionsPath + "/{id}"}, fill: fillDecision}
}

// journalDocument is the part of tenon journal's document that the page shows.
type journalDocument struct {
	AsOf    time.Time  `json:"asOf"`
	Records []decision `json:"records"`
}

// A decision is a row of that document.
type decision struct {
	ID            string    `json:"id"`
	Time          time.Time `json:"time"`
	Kind          string    `json:"kind"`
	Reason        string    `json:"reason"`
	NodePools     []string  `json:"nodePools"`
	Says          string    `json:"says"`
	SavingPerHour float64   `json:"savingPerHour"`
	Saved         float64   `json:"savedSoFar"`
	Outcome       string    `json:"outcome"`
}

// Pools returns the names of its NodePools.
func (d *decision) Pools() string { return cmp.Or(strings.Join(d.NodePools, ", "), "-") }

// Saves reports whether the decision is of a kind that saves money.
func (d *decision) Saves() bool { return d.Kind == "Disruption" }

// Less returns the fall of the bill per hour, SavedWords the money saved so far; both return a dash for a kind that saves nothing.
func (d *decision) Less() string {
	if !d.Saves() {
		return "-"
	}
	return price(d.SavingPerHour)
}

func (d *decision) SavedWords() string {
	if !d.Saves() {
		return "-"
	}
	return cents(d.Saved)
}

// State returns the outcome in words.
func (d *decision) State() string {
	return cmp.Or(map[string]string{"InProgress": "in progress", "Done": "done", "DoneInPart": "done in part", "Failed": "failed", "TakenBack": "taken back"}[d.Outcome], d.Outcome)
}

// decisionsQuery is the query of the address.
type decisionsQuery struct {
	pool, kind, reason, last string
	page                     int
}

// spans returns the choices of how much of the journal is shown.
func spans() [][2]string {
	return [][2]string{{"", "everything"}, {"1h", "the last hour"}, {"24h", "the last day"}, {"168h", "the last week"}}
}

func readDecisionsQuery(values url.Values) decisionsQuery {
	q := decisionsQuery{pool: values.Get("pool"), kind: values.Get("kind"), reason: values.Get("reason"), page: 1}
	for _, s := range spans() {
		if s[0] == values.Get("last") {
			q.last = s[0]
		}
	}
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 0 {
		q.page = n
	}
	return q
}

func (q decisionsQuery) address() string {
	values := url.Values{}
	for _, x := range [][2]string{{"pool", q.pool}, {"kind", q.kind}, {"reason", q.reason}, {"last", q.last}} {
		if x[1] != "" {
			values.Set(x[0], x[1])
		}
	}
	if q.page > 1 {
		values.Set("page", strconv.Itoa(q.page))
	}
	return (&url.URL{Path: decisionsPath, RawQuery: values.Encode()}).String()
}

// decisionsData is the input of the template of the decisions.
type decisionsData struct {
	Missing  string // why there is no journal
	Choices  []choice
	All      int
	Timeline *timeline
	Rows     []decisionRow
	Pages    pages
	Savings  []reasonRow
	Export   bool
}

type decisionRow struct {
	*decision
	Link string
}

// reasonRow is the saving of the shown decisions of one reason.
type reasonRow struct {
	Reason    string
	Decisions int
	PerHour   float64
	Saved     float64
}

func fillDecisions(r *http.Request, v *view) (content, error) {
	return content{title: "Decisions", shows: decisionsPage(newDecisionsData(readDecisionsQuery(r.URL.Query()), v, rowsPerPage))}, nil
}

func newDecisionsData(q decisionsQuery, v *view, perPage int) *decisionsData {
	d := &decisionsData{All: len(v.journal.Records)}
	if v.Journal == nil {
		d.Missing = capital(v.NoJournal)
		return d
	}
	d.Choices = q.choices(v)
	since := time.Time{}
	if span, err := time.ParseDuration(q.last); err == nil {
		since = v.journal.AsOf.Add(-span)
	}
	var shown []*decision
	for i := range v.journal.Records {
		x := &v.journal.Records[i]
		if !x.Time.Before(since) && (q.kind == "" || x.Kind == q.kind) && (q.reason == "" || x.Reason == q.reason) && (q.pool == "" || slices.Contains(x.NodePools, q.pool)) {
			shown = append(shown, x)
		}
	}
	slices.Reverse(shown) // the newest first
	if len(shown) > 0 {
		if since.IsZero() {
			since = shown[len(shown)-1].Time
		}
		d.Timeline = newTimeline(shown, since, v.journal.AsOf)
	}
	d.addReasons(shown)
	last := max(1, (len(shown)+perPage-1)/perPage)
	number := min(q.page, last)
	first, end := (number-1)*perPage, min(len(shown), (number-1)*perPage+min(perPage, len(shown)))
	d.Pages = pages{First: first + 1, Last: end, Of: len(shown), Number: number, LastPage: last}
	if number > 1 {
		at := q
		at.page = number - 1
		d.Pages.Previous = at.address()
	}
	if number < last {
		at := q
		at.page = number + 1
		d.Pages.Next = at.address()
	}
	for _, x := range shown[first:end] {
		d.Rows = append(d.Rows, decisionRow{x, decisionsPath + "/" + url.PathEscape(x.ID)})
	}
	return d
}

func (d *decisionsData) addReasons(shown []*decision) {
	for _, x := range shown {
		if !x.Saves() {
			continue
		}
		at := slices.IndexFunc(d.Savings, func(r reasonRow) bool { return r.Reason == x.Reason })
		if at < 0 {
			at = len(d.Savings)
			d.Savings = append(d.Savings, reasonRow{Reason: x.Reason})
		}
		r := &d.Savings[at]
		r.Decisions, r.PerHour, r.Saved = r.Decisions+1, r.PerHour+x.SavingPerHour, r.Saved+x.Saved
	}
	slices.SortFunc(d.Savings, func(a, b reasonRow) int {
		return cmp.Or(cmp.Compare(b.Saved, a.Saved), cmp.Compare(a.Reason, b.Reason))
	})
}

func (q decisionsQuery) choices(v *view) []choice {
	var pools, kinds, reasons []string
	for i := range v.journal.Records {
		x := &v.journal.Records[i]
		pools, kinds, reasons = append(pools, x.NodePools...), append(kinds, x.Kind), append(reasons, x.Reason)
	}
	list := func(label, name, chosen string, values []string) choice {
		slices.Sort(values)
		values = slices.Compact(values)
		c := choice{Label: label, Name: name, Values: []choiceValue{{"", "all", chosen == ""}}}
		if chosen != "" && !slices.Contains(values, chosen) {
			values = append(values, chosen)
		}
		for _, x := range values {
			c.Values = append(c.Values, choiceValue{x, x, x == chosen})
		}
		return c
	}
	last := choice{Label: "Show", Name: "last"}
	for _, s := range spans() {
		last.Values = append(last.Values, choiceValue{s[0], s[1], s[0] == q.last})
	}
	return []choice{last, list("Pool", "pool", q.pool, pools), list("Kind", "kind", q.kind, kinds), list("Reason", "reason", q.reason, reasons)}
}

// fillDecision shows one decision.
func fillDecision(r *http.Request, v *view) (content, error) {
	d := &storyData{Decision: true}
	e, err := decided(v, r)
	if err != nil {
		d.Problem = capital(err.Error()) + "."
		return content{title: "Decisions", shows: decisionPage(d), status: http.StatusNotFound}, nil
	}
	d.Story, d.JSON = e.Story, "/json/decision/"+url.PathEscape(r.PathValue("id"))
	return content{title: "Decision " + e.Story.Name, shows: decisionPage(d)}, nil
}

func decided(v *view, r *http.Request) (*Explanation, error) {
	if v.Decision == nil {
		return nil, errors.New(v.NoJournal)
	}
	return v.Decision(r.PathValue("id"))
}

func decisionDocument(v *view, r *http.Request) ([]byte, error) {
	e, err := decided(v, r)
	if err != nil {
		return nil, err
	}
	return e.Document, nil
}

// A timeline shows decisions as marks in lanes, one lane for each NodePool. Decisions of one kind that are close together share a mark.
type timeline struct {
	Width, Height, Left int
	From, To            time.Time
	Lanes               []lane
	Times               []timeTick
}

type lane struct {
	Y     int
	Name  string
	Marks []mark
}

// A mark is the place of one or more decisions of a kind.
type mark struct {
	X     int
	Size  int
	Kind  string
	Says  string
	count int
}

const (
	laneHeight = 28
	laneLeft   = 150
	bucket     = 8 // units of width that are one mark
	mostLanes  = 30
)

func newTimeline(shown []*decision, from, to time.Time) *timeline {
	t := &timeline{Width: 1280, Left: laneLeft, From: from, To: to}
	span := max(to.Sub(from), time.Second)
	type key struct {
		pool, kind string
		x          int
	}
	place := func(at time.Time) int {
		along := float64(at.Sub(from)) / float64(span) * float64(t.Width-laneLeft-2*bucket)
		return laneLeft + bucket + int(math.Round(min(along, float64(t.Width-laneLeft-2*bucket))/bucket))*bucket
	}
	marks := map[key]*mark{}
	lanes := map[string][]*mark{}
	for _, x := range shown {
		place := place(x.Time)
		for _, pool := range append(x.NodePools[:len(x.NodePools):len(x.NodePools)], slices.Repeat([]string{"no pool"}, max(0, 1-len(x.NodePools)))...) {
			k := key{pool, x.Kind, place}
			m := marks[k]
			if m == nil {
				m = &mark{X: place, Kind: strings.ToLower(x.Kind), Says: x.Time.UTC().Format(exactTime) + ": " + x.Says}
				marks[k] = m
				lanes[pool] = append(lanes[pool], m)
			}
			m.count++
		}
	}
	names := make([]string, 0, len(lanes))
	for name := range lanes {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names[:min(len(names), mostLanes)] {
		l := lane{Y: i*laneHeight + laneHeight/2, Name: fitting(name, laneLeft-8)}
		for _, m := range lanes[name] {
			m.Size = min(10, 4+int(math.Log2(float64(m.count))))
			if m.count > 1 {
				m.Says = fmt.Sprintf("%d decisions, the last %s", m.count, m.Says)
			}
			l.Marks = append(l.Marks, *m)
		}
		t.Lanes = append(t.Lanes, l)
	}
	t.Height, t.Times = len(t.Lanes)*laneHeight+20, timeTicks(from, to, place)
	return t
}

// Shape returns the outline of a mark. The outline shows its kind, beside its color.
func (m mark) Shape(y int) string {
	s, x := m.Size, m.X
	switch m.Kind {
	case "launch":
		return fmt.Sprintf("M%d %dl%d %dh-%dz", x, y-s, s, 2*s, 2*s)
	case "disruption":
		return fmt.Sprintf("M%d %dl%d -%dh-%dz", x, y+s, s, 2*s, 2*s)
	case "removal":
		return fmt.Sprintf("M%d %dh%dv%dh-%dz", x-s, y-s, 2*s, 2*s, 2*s)
	}
	return fmt.Sprintf("M%d %dl%d %dl-%d %dl-%d -%dz", x, y-s, s, s, s, s, s, s)
}

// fitting shortens a name to the room for it, at about 7 units a letter.
func fitting(name string, width float64) string {
	most := int(width / 7)
	letters := []rune(name)
	if len(letters) <= most {
		return name
	}
	if most < 4 {
		return ""
	}
	return string(letters[:most-1]) + "…"
}
