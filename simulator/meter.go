package simulator

import (
	"context"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Counts holds the numbers of events.
type Counts struct {
	// Launched counts started machines, Refused launches without an available offering, Interrupted machines for which the cloud sent a
	// notice.
	Launched    int `json:"launched"`
	Refused     int `json:"refused"`
	Interrupted int `json:"interrupted"`
	// Removed counts deleted claims, Moves begun disruptions, both by reason; TakenBack counts disruptions that were taken back.
	Removed   map[string]int `json:"removed"`
	Moves     map[string]int `json:"moves"`
	TakenBack int            `json:"takenBack"`
	// Evictions counts evicted pods, by the reason why their node was removed.
	Evictions map[string]int `json:"evictions"`
	// Jobs counts pods of CronJobs that ran to their end, Bound pods that found a node, Passes decisions of the engine.
	Jobs   int `json:"jobs"`
	Bound  int `json:"bound"`
	Passes int `json:"passes"`
	// Unserved counts the pods without a node that had waited longer than any boot takes when they were deleted, or at the end.
	Unserved int `json:"unserved"`
}

func newCounts() Counts {
	return Counts{Removed: map[string]int{}, Moves: map[string]int{}, Evictions: map[string]int{}}
}

// Hour is one hour of the world. Its values are means, except the counts.
type Hour struct {
	Begin    metav1.Time `json:"begin"`
	Machines float64     `json:"machines"`
	Pods     float64     `json:"pods"`
	Waiting  float64     `json:"waiting"`
	// CostPerHour is the bill in USD. BoundPerHour is the least possible cost of the pods that exist at a random time in the hour;
	// AnewPerHour is the cost of a plan that places all of these pods it can on new machines. Both are null if they were not computed.
	CostPerHour  float64  `json:"costPerHour"`
	BoundPerHour *float64 `json:"boundPerHour"`
	AnewPerHour  *float64 `json:"anewPerHour"`
	Evictions    int      `json:"evictions"`
	Launched     int      `json:"launched"`
}

// Result is the outcome of a world.
type Result struct {
	Setting string                 `json:"setting,omitempty"`
	Seed    uint64                 `json:"seed"`
	Profile string                 `json:"profile"`
	Policy  v1.ConsolidationPolicy `json:"policy,omitempty"`
	// Payback and ConsolidateAfter are the settings given to all NodePools; nil if each keeps its own.
	Payback          *metav1.Duration `json:"payback,omitempty"`
	ConsolidateAfter *metav1.Duration `json:"consolidateAfter,omitempty"`
	Begin            metav1.Time      `json:"begin"`
	Hours            []Hour           `json:"hours"`
	Counts           Counts           `json:"counts"`
	// Cost is the whole bill in USD. Bound is the integral of the bound over the time. Gap is the share by which the bill is above this
	// integral, AnewGap above the integral of new plans. They are below 0 if the bill is less.
	Cost    float64 `json:"cost"`
	Bound   float64 `json:"bound"`
	Gap     float64 `json:"gap"`
	AnewGap float64 `json:"anewGap"`
	// Causes divide Cost less Bound by cause, the largest part first.
	Causes []Cause `json:"causes"`
	// PodDays is the number of days that all pods ran together. EvictionsPerPodDay leaves out evictions from lost or interrupted
	// machines, AllEvictionsPerPodDay does not.
	PodDays               float64 `json:"podDays"`
	EvictionsPerPodDay    float64 `json:"evictionsPerPodDay"`
	AllEvictionsPerPodDay float64 `json:"allEvictionsPerPodDay"`
	// MostLost is the largest share of a workload's pods on machines of one type and zone that the cloud interrupted together.
	MostLost float64 `json:"mostLost"`
	// Waited is how long pods waited for a node, in seconds: the median, the 99th percentile, and the longest time.
	Waited Waited `json:"waited"`
	// AtEnd is the world when it ended.
	AtEnd AtEnd `json:"atEnd"`
	// LongestStay is the longest stay of a node whose removal paid back; only with Config.Audit.
	LongestStay Stay `json:"-"`
}

// Waited holds how long pods waited, in seconds.
type Waited struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Most   float64 `json:"most"`
}

// AtEnd is the state of a world at its end.
type AtEnd struct {
	Machines int `json:"machines"`
	Pods     int `json:"pods"`
	Waiting  int `json:"waiting"`
	// Idle counts pods that wait although a plan has found a place for them, for longer than a machine needs. Leaked counts machines
	// without a claim. Both should be 0.
	Idle   int `json:"idle"`
	Leaked int `json:"leaked"`
	// Kept counts the nodes that are not removed, by reason.
	Kept map[engine.Code]int `json:"kept"`
}

// meter holds the sums and counts of a world's events. The parts that cause an event count it.
type meter struct {
	Counts
	cfg            *Config
	agenda         *agenda
	markets        *markets
	opened         time.Time
	upTo           time.Time
	machines, pods int
	overhead       float64 // what nodes have cost beside their machines since the measurement began, in USD
	hours          []Hour
	billed         float64 // up to the beginning of the hour
	first          float64 // up to the beginning of the measurement
	waits          []float64
	ledger         ledger
	losses         losses
}

func newMeter(cfg *Config, a *agenda, x *markets) *meter {
	return &meter{
		Counts: newCounts(), cfg: cfg, agenda: a, markets: x, losses: losses{begun: map[engine.OfferingID]*loss{}},
		ledger: ledger{agenda: a, markets: x, accounts: map[string]*account{}, paid: map[CauseName]float64{}},
	}
}

// open begins to measure.
func (m *meter) open(begin, end time.Time) {
	m.Counts, m.losses.most = newCounts(), 0
	m.opened, m.upTo, m.waits = begin, begin, nil
	m.first = m.bill()
	m.billed = m.first
	m.newHour(begin)
	for at := begin.Add(time.Hour); at.Before(end); at = at.Add(time.Hour) {
		m.agenda.exactly(at, func() { m.nextHour(at) })
	}
}

func (m *meter) newHour(at time.Time) {
	m.hours = append(m.hours, Hour{Begin: metav1.NewTime(at.UTC())})
}

// pass adds the time up to t, in which some pods waited, to the sums.
func (m *meter) pass(t time.Time, waiting int) {
	if m.hours == nil {
		return
	}
	h := &m.hours[len(m.hours)-1]
	span := float64(t.Sub(m.upTo)) / float64(time.Hour)
	h.Machines += float64(span * float64(m.machines))
	m.overhead += float64(span * float64(m.machines) * m.markets.overhead)
	h.Pods += float64(span * float64(m.pods))
	h.Waiting += float64(span * float64(waiting))
	m.upTo = t
}

func (m *meter) nextHour(at time.Time) {
	m.closeHour()
	m.newHour(at)
}

// closeHour turns the hour's sums into means.
func (m *meter) closeHour() {
	h := &m.hours[len(m.hours)-1]
	length := float64(m.upTo.Sub(h.Begin.Time)) / float64(time.Hour)
	if length <= 0 {
		return
	}
	if watched := m.cfg.Watched; watched != nil {
		watched()
	}
	bill := m.bill()
	h.CostPerHour = round((bill - m.billed) / length)
	h.Machines, h.Pods, h.Waiting = round(h.Machines/length), round(h.Pods/length), round(h.Waiting/length)
	m.billed = bill
}

// round rounds to the digits that are meaningful in a mean.
func round(x float64) float64 { return math.Round(x*1e4)/1e4 + 0 } // no zero has a sign

func (m *meter) bill() float64 {
	sum := m.overhead
	for _, x := range m.markets.list {
		if x.cloud != nil {
			sum += x.cloud.Counters().Cost
		}
	}
	return sum
}

func (m *meter) bound(waited time.Duration) {
	m.Bound++
	m.waits = append(m.waits, waited.Seconds())
}

// unserved adds to Unserved a pod that is deleted without a node, or has none at the end, if it waited too long.
func (m *meter) unserved(u *unit) {
	if m.agenda.now.Sub(u.pod.CreationTimestamp.Time) >= settled {
		m.Unserved++
	}
}

// interrupted counts a notice of the cloud; another machine will be started for this one.
func (m *meter) interrupted() {
	m.Interrupted++
	m.ledger.lost++
}

func (m *meter) evicted(cause string) {
	m.Evictions[cause]++
	if m.hours != nil {
		m.hours[len(m.hours)-1].Evictions++
	}
}

func (m *meter) launched() {
	m.Launched++
	if m.hours != nil {
		m.hours[len(m.hours)-1].Launched++
	}
}

func (m *meter) decided(d engine.Disruption) { m.Moves[string(d.Reason)]++ }

// result ends the measurement and returns the Result.
func (w *World) result(ctx context.Context) *Result {
	m := w.meter
	w.sampler.planning.Wait()
	m.closeHour()
	for _, u := range w.cluster.unbound.list {
		m.unserved(u)
	}
	r := &Result{
		Setting: w.cfg.Setting, Seed: w.cfg.Seed, Profile: w.cfg.profile(), Policy: w.cfg.Policy, Begin: metav1.NewTime(m.opened.UTC()), Hours: m.hours, Counts: m.Counts,
		Cost: round(m.bill() - m.first),
	}
	if w.cfg.Payback > 0 {
		r.Payback = &metav1.Duration{Duration: w.cfg.Payback}
	}
	if after := w.cfg.ConsolidateAfter; after != nil {
		r.ConsolidateAfter = &metav1.Duration{Duration: *after}
	}
	for _, h := range r.Hours {
		r.PodDays += h.Pods / 24
	}
	causes, bound, anew := w.sampler.close()
	if r.Causes, r.Bound = causes, round(bound); bound > 0 {
		r.Gap, r.AnewGap = round(r.Cost/bound-1), round(r.Cost/anew-1)
	}
	all, ours := 0, 0
	for cause, n := range m.Evictions { // sums of whole numbers do not depend on the order
		all += n
		if cause != "interrupted" && cause != "lost" {
			ours += n
		}
	}
	if r.PodDays = round(r.PodDays); r.PodDays > 0 {
		r.EvictionsPerPodDay, r.AllEvictionsPerPodDay = round(float64(ours)/r.PodDays), round(float64(all)/r.PodDays)
	}
	r.MostLost = round(m.losses.most)
	slices.Sort(m.waits)
	if n := len(m.waits); n > 0 {
		r.Waited = Waited{Median: m.waits[n/2], P99: m.waits[n*99/100], Most: m.waits[n-1]}
	}
	r.AtEnd = w.atEnd(ctx)
	r.LongestStay = w.audit.longestStay
	return r
}
