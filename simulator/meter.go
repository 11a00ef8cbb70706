package simulator

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// interrupted counts a notice of the cloud; another machine will be started for the interrupted one.
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

// close ends the measurement and returns the part of the Result that the meter knows.
func (m *meter) close() *Result {
	m.closeHour()
	r := &Result{Begin: metav1.NewTime(m.opened.UTC()), Hours: m.hours, Counts: m.Counts, Cost: round(m.bill() - m.first), MostLost: round(m.losses.most)}
	for _, h := range r.Hours {
		r.PodDays += h.Pods / 24
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
	slices.Sort(m.waits)
	if n := len(m.waits); n > 0 {
		r.Waited = Waited{Median: m.waits[n/2], P99: m.waits[n*99/100], Most: m.waits[n-1]}
	}
	return r
}
