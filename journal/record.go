// Package journal keeps decisions, their reasons and their outcomes as records that outlive events and logs. The functions that make a
// record, extend it and add up its savings are pure. A Journal keeps the newest records in memory, and in a folder if it has one. For whole
// passes that can be computed again, see tenon controller --record-disruptions.
package journal

import (
	"slices"
	"time"
)

// Kind is the subject of a record.
type Kind string

const (
	Launch     Kind = "Launch"     // machines for waiting pods
	Disruption Kind = "Disruption" // nodes that a plan removes or replaces
	Removal    Kind = "Removal"    // removed without a plan: the cloud takes the machines back, they are broken or late, or a user deletes them
	Refusal    Kind = "Refusal"    // pods that nothing can run
)

// Outcome is the result of a decision.
type Outcome string

const (
	InProgress Outcome = "InProgress"
	Done       Outcome = "Done"
	InPart     Outcome = "DoneInPart" // the decision was carried out for some machines, but not for others
	Failed     Outcome = "Failed"     // the decision was carried out for no machine
	TakenBack  Outcome = "TakenBack"  // the nodes are kept
)

// A Record is one decision: the situation, the choice, the rejected choices and the outcome. It contains names and figures, but no parts of
// specs.
type Record struct {
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Reason is the reason of the plan's disruption, or Pending, Interrupted, Deleted or Unschedulable.
	Reason    string   `json:"reason"`
	NodePools []string `json:"nodePools"`
	// Says is the decision in a sentence.
	Says string `json:"says"`
	Seen Seen   `json:"seen"`
	// Machines are the machines to remove, followed by the new ones.
	Machines []Machine   `json:"machines,omitempty"`
	Rejected []Rejection `json:"rejected,omitempty"`
	// PriceBefore is the cost of the machines to remove, PriceAfter the expected cost of the new machines, in USD per hour. SavingPerHour is the
	// expected decrease of the bill.
	PriceBefore   float64 `json:"priceBefore"`
	PriceAfter    float64 `json:"priceAfter"`
	SavingPerHour float64 `json:"savingPerHour"`
	// Pods is the number of affected pods. PodNames are the first of them.
	Pods     int      `json:"pods"`
	PodNames []string `json:"podNames,omitempty"`
	Steps    []Step   `json:"steps,omitempty"`
	Outcome  Outcome  `json:"outcome"`
	// Saved is the saving so far, in USD: see Savings. It is computed for each Document.
	Saved float64 `json:"savedSoFar"`
}

// Seen contains figures of the decision's snapshot.
type Seen struct {
	At      time.Time `json:"at"`
	Nodes   int       `json:"nodes"`
	Pods    int       `json:"pods"`
	Waiting int       `json:"waiting"`
	// PricePerHour is the cost of all nodes with a known price.
	PricePerHour float64 `json:"pricePerHour"`
}

// A Machine is removed or new. A new machine has a claim once it has been requested, and a node once it has joined.
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

// A Rejection is a choice that was not made. Count is the number of its nodes or pods, Names are some of them.
type Rejection struct {
	Code  string   `json:"code"`
	Says  string   `json:"says"`
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

// What is the type of an event of a machine.
type What string

const (
	Asked      What = "asked for"
	Launched   What = "launched"
	Registered What = "registered"
	Ready      What = "ready"
	Deleted    What = "told to go"
	Draining   What = "drain held" // Step.Says names the obstacle
	Drained    What = "drained"
	Removed    What = "removed"
	Kept       What = "kept" // the machine is kept after all
	Lost       What = "failed"
)

// A Step is an event of one machine of a record.
type Step struct {
	Time  time.Time `json:"time"`
	Claim string    `json:"claim"`
	What  What      `json:"what"`
	Says  string    `json:"says,omitempty"`
	// Machine is the claim's machine, in the step with its first details.
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

// machineOf returns the machine of a step. If no machine has the step's claim, it returns the first new machine without a claim.
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

// happened returns the events of each claim.
func (r *Record) happened() map[string][]What {
	out := map[string][]What{}
	for _, s := range r.Steps {
		out[s.Claim] = append(out[s.Claim], s.What)
	}
	return out
}

// outcome computes the outcome from the steps.
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

// clone returns a copy whose slices of machines and steps are its own.
func (r *Record) clone() Record {
	c := *r
	c.Machines, c.Steps = slices.Clone(r.Machines), slices.Clone(r.Steps)
	return c
}

// Words returns the outcome in words.
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
