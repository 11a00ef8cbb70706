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
	// mostRecords and mostMachines bound what is kept in memory: 25 MB (BenchmarkFull).
	mostRecords  = 10_000
	mostMachines = 20_000
	// sameRemoval is how far apart machines may be told to go that are one record.
	sameRemoval = time.Minute
	// refusalsTold is how long a refusal is not told again.
	refusalsTold = time.Hour
)

// A Journal keeps the newest records. It may be used by several goroutines.
type Journal struct {
	clock clock.PassiveClock

	mu       sync.Mutex // guards all below
	records  []*Record
	machines int
	told     map[uint64]time.Time // refusals by a hash, since anybody's pods may be many, and when they were last met
	lost     map[string]bool      // claims that a record tells the end of while they are still there
	// written is how much of each record the file has; those of which it has less than the memory are dirty.
	written map[string]extent
	dirty   []string
	wake    chan struct{} // nil if there is no file
}

// An extent is how much there is of a record, which only grows.
type extent struct{ machines, steps int }

func (r *Record) extent() extent { return extent{len(r.Machines), len(r.Steps)} }

// New begins an empty journal.
func New(clock clock.PassiveClock) *Journal {
	return &Journal{clock: clock, told: map[uint64]time.Time{}, lost: map[string]bool{}, written: map[string]extent{}}
}

// Planned appends what became of a plan for pods that wait: claims are what its launches were asked for as, "" for those that were not.
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
	began := map[uint64]bool{} // in this plan: its other pods are part of the same record
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

// Passed goes on with the records, and appends the disruptions that have begun in a pass and what else goes.
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

// appendRemoval appends a record, or makes it one with another of a moment ago.
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

// trim forgets the oldest.
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

// soil notes that the file lacks something of a record.
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

// restore takes records in that a file holds.
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

// Document shows what the journal holds now.
func (j *Journal) Document(f Filter) *Document {
	j.mu.Lock()
	records := make([]Record, 0, len(j.records))
	for _, r := range j.records {
		records = append(records, r.clone())
	}
	j.mu.Unlock()
	return NewDocument(records, j.clock.Now(), f)
}
