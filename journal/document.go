package journal

import (
	"slices"
	"time"
)

// A Document contains the selected records, the oldest first, with their savings up to AsOf.
type Document struct {
	AsOf time.Time `json:"asOf"`
	// Savings are sums over the records, by reason.
	Savings []ReasonSaving `json:"savings"`
	Records []Record       `json:"records"`
	// Notes lists the parts that could not be read.
	Notes []string `json:"notes,omitempty"`
}

// A Filter selects records. Its zero value selects all.
type Filter struct {
	Since time.Time
	// NodePool matches one of the record's pools, Node the node or claim of one of its machines.
	NodePool, Node, Reason string
	// Most keeps only this number of records, the newest; 0 keeps all.
	Most int
}

func (f Filter) matches(r *Record) bool {
	return !r.Time.Before(f.Since) && (f.Reason == "" || f.Reason == r.Reason) &&
		(f.NodePool == "" || slices.Contains(r.NodePools, f.NodePool)) &&
		(f.Node == "" || slices.ContainsFunc(r.Machines, func(m Machine) bool { return m.Node == f.Node || m.Claim == f.Node }))
}

// NewDocument computes the savings of the records until now. It returns the records that the filter selects, with steps in order of time.
func NewDocument(records []Record, now time.Time, f Filter) *Document {
	saved := Savings(records, now)
	d := &Document{AsOf: now.UTC(), Records: []Record{}}
	for i := range records {
		records[i].Saved = saved[records[i].ID]
		slices.SortStableFunc(records[i].Steps, func(a, b Step) int { return a.Time.Compare(b.Time) }) // steps were recorded machine by machine
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

// Narrow returns the part of a document that the filter selects.
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

// Last returns the time of the newest event in the records, which is the time of a journal in files.
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
