// Package journal keeps decisions, their reasons and their outcomes as records that outlive events and logs. The functions that make a record,
// extend it and add up its savings are pure. A Journal keeps the newest records in memory, and in a folder if it has one. For whole passes that can
// be computed again, see tenon controller --record-disruptions.
package journal

import (
	"slices"
	"time"
)

// Kind is what a record is about.
type Kind string

const (
	Launch     Kind = "Launch"     // machines for pods that wait
	Disruption Kind = "Disruption" // nodes that a plan removes or replaces
	Removal    Kind = "Removal"    // machines that go without a plan: the cloud takes them back, they are broken or late, or somebody deletes them
	Refusal    Kind = "Refusal"    // pods that nothing can run
)

// Outcome is what has become of a decision.
type Outcome string

const (
	InProgress Outcome = "InProgress"
	Done       Outcome = "Done"
	InPart     Outcome = "DoneInPart" // some machines did as was decided, others did not
	Failed     Outcome = "Failed"     // no machine did
	TakenBack  Outcome = "TakenBack"  // the nodes stay after all
)

// A Record is one decision: what was seen, chosen and rejected, and what has become of it. It holds names and figures, nothing of
// anybody's specs.
type Record struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Reason is why: of a plan's disruptions its reason, of others Pending, Interrupted, Deleted or Unschedulable.
	Reason    string   `json:"reason"`
	NodePools []string `json:"nodePools"`
	// Says is the decision in a sentence.
	Says string `json:"says"`
	Seen Seen   `json:"seen"`
	// Machines are those that go, and then those that come.
	Machines []Machine   `json:"machines,omitempty"`
	Rejected []Rejection `json:"rejected,omitempty"`
	// PriceBefore is what the machines that go cost, PriceAfter what those that come were expected to cost, in USD per hour. SavingPerHour
	// is what the bill was expected to fall by.
	PriceBefore   float64 `json:"priceBefore"`
	PriceAfter    float64 `json:"priceAfter"`
	SavingPerHour float64 `json:"savingPerHour"`
	// Pods counts the pods that it is about, PodNames are the first of them.
	Pods     int      `json:"pods"`
	PodNames []string `json:"podNames,omitempty"`
	Steps    []Step   `json:"steps,omitempty"`
	Outcome  Outcome  `json:"outcome"`
	// Saved is what it has saved so far, in USD: see Savings. It is worked out when records are shown.
	Saved float64 `json:"savedSoFar"`
}

// Seen are figures of the snapshot that the decision was made from.
type Seen struct {
	At      time.Time `json:"at"`
	Nodes   int       `json:"nodes"`
	Pods    int       `json:"pods"`
	Waiting int       `json:"waiting"`
	// PricePerHour is what all nodes cost as far as that is known.
	PricePerHour float64 `json:"pricePerHour"`
}

// A Machine goes or comes. One that is to come has a name once it has been asked for, and a node once it has joined.
type Machine struct {
	Comes        bool     `json:"comes,omitempty"`
	Claim        string   `json:"claim,omitempty"`
	Node         string   `json:"node,omitempty"`
	NodePool     string   `json:"nodePool"`
	InstanceType string   `json:"instanceType,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	CapacityType string   `json:"capacityType,omitempty"`
	PricePerHour *float64 `json:"pricePerHour"`
}

// A Rejection is what was not done: Count nodes or pods, of which Names are some.
type Rejection struct {
	Code  string   `json:"code"`
	Says  string   `json:"says"`
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

// What happened to a machine.
type What string

const (
	Asked      What = "asked for"
	Launched   What = "launched"
	Registered What = "registered"
	Ready      What = "ready"
	Deleted    What = "told to go"
	Draining   What = "drain held" // by what Says names
	Drained    What = "drained"
	Removed    What = "removed"
	Kept       What = "kept" // it stays after all
	Lost       What = "failed"
)

// A Step is something that happened to one machine of a record.
type Step struct {
	Time  time.Time `json:"time"`
	Claim string    `json:"claim"`
	What  What      `json:"what"`
	Says  string    `json:"says,omitempty"`
	// Machine is what the claim has become, in a step by which that was learnt.
	Machine *Machine `json:"machine,omitempty"`
}

// apply adds a step to the record.
func (r *Record) apply(s Step) {
	if m := r.machineOf(s); m != nil {
		m.Claim = s.Claim
		if s.Machine != nil {
			pool := m.NodePool
			*m = *s.Machine
			m.Comes, m.Claim = true, s.Claim
			if m.NodePool == "" {
				m.NodePool = pool
			}
		}
	}
	r.Steps = append(r.Steps, s)
	r.Outcome = r.outcome()
}

// machineOf is the machine that a step is about: if none has its name yet, the first of those that come and have no name.
func (r *Record) machineOf(s Step) *Machine {
	for i := range r.Machines {
		if r.Machines[i].Claim == s.Claim {
			return &r.Machines[i]
		}
	}
	for i := range r.Machines {
		if r.Machines[i].Comes && r.Machines[i].Claim == "" && s.What == Asked {
			return &r.Machines[i]
		}
	}
	return nil
}

// happened reports what has happened to each claim.
func (r *Record) happened() map[string][]What {
	out := map[string][]What{}
	for _, s := range r.Steps {
		out[s.Claim] = append(out[s.Claim], s.What)
	}
	return out
}

// outcome follows from the steps.
func (r *Record) outcome() Outcome {
	if len(r.Machines) == 0 {
		return Done
	}
	happened := r.happened()
	good, lost, kept := 0, 0, 0
	for i := range r.Machines {
		switch m, what := &r.Machines[i], happened[r.Machines[i].Claim]; {
		case slices.Contains(what, Kept):
			kept++
		case slices.Contains(what, Lost):
			lost++
		case m.Comes && slices.Contains(what, Ready), !m.Comes && slices.Contains(what, Removed):
			good++
		}
	}
	going := len(slices.DeleteFunc(slices.Clone(r.Machines), func(m Machine) bool { return m.Comes }))
	switch {
	case kept > 0 && kept == going && lost == 0:
		return TakenBack
	case kept > 0 && kept == going:
		return Failed
	case good+lost+kept < len(r.Machines):
		return InProgress
	case good == 0:
		return Failed
	case lost+kept > 0:
		return InPart
	}
	return Done
}

// clone is a copy that shares nothing that is written to.
func (r *Record) clone() Record {
	c := *r
	c.Machines, c.Steps = slices.Clone(r.Machines), slices.Clone(r.Steps)
	return c
}

// Words are a line about the outcome.
func (o Outcome) Words() string {
	switch o {
	case Done:
		return "done"
	case InPart:
		return "done in part"
	case Failed:
		return "failed"
	case TakenBack:
		return "taken back"
	}
	return "in progress"
}
