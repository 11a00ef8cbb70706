package journal

import (
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

const (
	// mostRecords and mostMachines bound the memory of a journal: 25 MB (BenchmarkFull).
	mostRecords  = 10_000
	mostMachines = 20_000
	// sameRemoval is the largest time between two removals that share a record.
	sameRemoval = time.Minute
	// refusalsTold is the time for which an equal refusal gets no new record.
	refusalsTold = time.Hour
)

// A Journal keeps the newest records. It may be used by several goroutines.
type Journal struct {
	clock clock.PassiveClock

	mu       sync.Mutex // guards the fields below
	records  []*Record
	machines int
	told     map[uint64]time.Time // last time of each refusal, by a hash, because the number of pods is not bounded
	lost     map[string]bool      // existing claims whose failure has been recorded
	// written is the extent of each record in the file. dirty are the records with a larger extent in memory.
	written map[string]extent
	dirty   []string
	wake    chan struct{} // nil if there is no file
}

// An extent is the size of a record. A record only grows.
type extent struct{ machines, steps int }

func (r *Record) extent() extent { return extent{len(r.Machines), len(r.Steps)} }

// New returns an empty journal.
func New(clock clock.PassiveClock) *Journal {
	return &Journal{clock: clock, told: map[uint64]time.Time{}, lost: map[string]bool{}, written: map[string]extent{}}
}

// Planned appends the records of a plan for waiting pods. claims has the NodeClaim's name for each launch, "" for launches without a
// NodeClaim.
func (j *Journal) Planned(s *engine.Snapshot, plan *engine.Plan, claims []string) {
	now := j.clock.Now()
	var launches []Record
	if slices.ContainsFunc(claims, func(c string) bool { return c != "" }) {
		launches = Launches(s, plan, claims, now)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range launches {
		j.append(&launches[i])
	}
	for key, at := range j.told {
		if now.Sub(at) >= refusalsTold {
			delete(j.told, key)
		}
	}
	began := map[uint64]bool{} // in this plan; its other pods belong to the same record
	met := func(text string) bool {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(text))
		key := sum.Sum64()
		if _, told := j.told[key]; !told {
			began[key] = true
		}
		j.told[key] = now
		return !began[key]
	}
	if r := Refusals(s, plan, met, now); r != nil {
		j.append(r)
	}
}

// Passed extends the records, and appends the disruptions that a pass has begun and other removals.
func (j *Journal) Passed(s *engine.Snapshot, plan *engine.Plan, begun []engine.Disruption) {
	now := j.clock.Now()
	disruptions := Disruptions(s, plan, begun, now)
	j.mu.Lock()
	defer j.mu.Unlock()
	f := newFollower(s)
	explained := map[string]bool{}
	for claim := range j.lost {
		if f.claims[claim] == nil {
			delete(j.lost, claim)
			continue
		}
		explained[claim] = true
	}
	for _, r := range j.records {
		if r.Outcome != InProgress {
			continue
		}
		for _, step := range f.Follow(r) {
			r.apply(step)
			if step.What == Lost {
				j.lost[step.Claim] = true
			}
			j.soil(r.ID)
		}
		for i := range r.Machines {
			explained[r.Machines[i].Claim] = true
		}
	}
	for i := range disruptions {
		for k := range disruptions[i].Machines {
			explained[disruptions[i].Machines[k].Claim] = true
		}
		j.append(&disruptions[i])
	}
	removals := Removals(s, explained, now)
	for i := range removals {
		j.appendRemoval(&removals[i])
	}
}

// appendRemoval appends a record, or joins it with a record of the same reason within sameRemoval.
func (j *Journal) appendRemoval(r *Record) {
	for _, last := range slices.Backward(j.records) {
		if r.Time.Sub(last.Time) > sameRemoval {
			break
		}
		if last.Kind != Removal || last.Reason != r.Reason || last.Outcome != InProgress {
			continue
		}
		last.Machines, last.PriceBefore = append(last.Machines, r.Machines...), last.PriceBefore+r.PriceBefore
		for _, pool := range r.NodePools {
			if !slices.Contains(last.NodePools, pool) {
				last.NodePools = append(last.NodePools, pool)
			}
		}
		last.sayRemoved()
		j.machines += len(r.Machines)
		j.soil(last.ID)
		return
	}
	j.append(r)
}

func (j *Journal) append(r *Record) {
	j.records, j.machines = append(j.records, r), j.machines+len(r.Machines)
	j.soil(r.ID)
	j.trim()
}

// trim drops the oldest records.
func (j *Journal) trim() {
	n := 0
	for ; n < len(j.records)-1 && (len(j.records)-n > mostRecords || j.machines > mostMachines); n++ {
		j.machines -= len(j.records[n].Machines)
		delete(j.written, j.records[n].ID)
	}
	if n > 0 {
		j.records = slices.Delete(j.records, 0, n)
	}
}

// soil marks a record as dirty.
func (j *Journal) soil(id string) {
	if j.wake == nil {
		return
	}
	if !slices.Contains(j.dirty, id) {
		j.dirty = append(j.dirty, id)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// restore adds the records of a file.
func (j *Journal) restore(records []Record) {
	for i := range records {
		r := &records[i]
		j.records, j.machines = append(j.records, r), j.machines+len(r.Machines)
		j.written[r.ID] = r.extent()
		for _, s := range r.Steps {
			if s.What == Lost {
				j.lost[s.Claim] = true
			}
		}
	}
	j.trim()
}

// Document returns the present content of the journal.
func (j *Journal) Document(f Filter) *Document {
	j.mu.Lock()
	records := make([]Record, 0, len(j.records))
	for _, r := range j.records {
		records = append(records, r.clone())
	}
	j.mu.Unlock()
	return NewDocument(records, j.clock.Now(), f)
}
