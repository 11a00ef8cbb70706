package journal

import (
	"slices"
	"time"
)

// A Document is the records that are shown, the oldest first, with what they have saved as of a moment.
type Document struct {
	AsOf time.Time `json:"asOf"`
	// Savings are sums over the records, by reason.
	Savings []ReasonSaving `json:"savings"`
	Records []Record       `json:"records"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// A Filter chooses records. Its zero value takes all.
type Filter struct {
	Since time.Time
	// NodePool is one of the record's, Node the node or claim of one of its machines.
	NodePool, Node, Reason string
	// Most keeps the newest of so many; 0 keeps all.
	Most int
}

func (f Filter) matches(r *Record) bool {
	return !r.Time.Before(f.Since) && (f.Reason == "" || f.Reason == r.Reason) &&
		(f.NodePool == "" || slices.Contains(r.NodePools, f.NodePool)) &&
		(f.Node == "" || slices.ContainsFunc(r.Machines, func(m Machine) bool { return m.Node == f.Node || m.Claim == f.Node }))
}

// NewDocument works out what the records have saved by now, and shows those that the filter takes, with their steps in order of time.
func NewDocument(records []Record, now time.Time, f Filter) *Document {
	saved := Savings(records, now)
	d := &Document{AsOf: now.UTC(), Records: []Record{}}
	for i := range records {
		records[i].Saved = saved[records[i].ID]
		slices.SortStableFunc(records[i].Steps, func(a, b Step) int { return a.Time.Compare(b.Time) }) // they were learnt machine by machine
		if f.matches(&records[i]) {
			d.Records = append(d.Records, records[i])
		}
	}
	slices.SortStableFunc(d.Records, func(a, b Record) int { return a.Time.Compare(b.Time) })
	if f.Most > 0 && len(d.Records) > f.Most {
		d.Records = d.Records[len(d.Records)-f.Most:]
	}
	if d.Savings = ByReason(d.Records); d.Savings == nil {
		d.Savings = []ReasonSaving{}
	}
	return d
}

// Narrow is the part of a document that the filter takes.
func (d *Document) Narrow(f Filter) *Document {
	out := &Document{AsOf: d.AsOf, Notes: d.Notes, Records: []Record{}}
	for i := range d.Records {
		if f.matches(&d.Records[i]) {
			out.Records = append(out.Records, d.Records[i])
		}
	}
	if out.Savings = ByReason(out.Records); out.Savings == nil {
		out.Savings = []ReasonSaving{}
	}
	return out
}

// Last is when the newest thing happened that the records tell of: what a file's journal is as of.
func Last(records []Record) time.Time {
	var last time.Time
	for i := range records {
		if t := records[i].Time; t.After(last) {
			last = t
		}
		for _, s := range records[i].Steps {
			if s.Time.After(last) {
				last = s.Time
			}
		}
	}
	return last
}
