package dashboard

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"
)

// A Picture is the data about a cluster at one instant. It never changes.
type Picture struct {
	// Cluster is the name of the cluster or of its file, At the time of reading, Notes remarks for readers.
	Cluster string
	At      time.Time
	Notes   []string
	// Nodes and Plan are the documents of tenon nodes -o json and tenon plan --disrupt -o json.
	Nodes, Plan []byte
	// Journal is the document of tenon journal -o json, nil without one; NoJournal says why there is none.
	Journal   []byte
	NoJournal string
	// Costs is the cost of the machines from each time on, as far as the journal has it, the oldest first.
	Costs []Cost
	// Decision explains a decision of the journal as tenon journal ID does. It fails if there is no such decision.
	Decision func(id string) (*Explanation, error)
	// Savings returns the document of tenon savings -o json, computed at the first call. An error says why nothing can be compared.
	Savings func() ([]byte, error)
	// Namespaces divide the price of the nodes, Buffers are the kept room with its cost.
	Namespaces []NamespaceCost
	Buffers    []Buffer
	// Pods are all pods, NodePools the names of all pools. Together are the PodGroups and ProvisioningRequests.
	Pods      []Pod
	NodePools []string
	Together  []Together
	// Explain answers as tenon explain does. Several goroutines may call it at once. It fails if there is no such object.
	Explain func(kind Kind, name string) (*Explanation, error)
	// Manifests are the objects of the cluster that a change may begin with, in order of their kinds.
	Manifests []Manifest
	// Try returns the outcome of the objects in a text, as tenon plan --disrupt does; it changes nothing. Several goroutines may call it
	// at once. Once stop returns true it ends soon, and its answer is useless. It is nil if nothing can be tried.
	Try func(text []byte, stop func() bool) (*Outcome, error)
}

// A Cost is the cost of the machines from a time on, in USD per hour.
type Cost struct {
	Time         time.Time
	PricePerHour float64
}

// A Pod is a pod with its node or, if the pod waits, with the plan's decision on it.
type Pod struct {
	Name string // namespace/name
	Node string // that runs it
	// Waiting is nil for a pod that waits for nothing.
	Waiting *Waiting
}

// Together is an object that asks for several pods at once: a PodGroup, or a ProvisioningRequest.
type Together struct {
	Kind Kind
	Name string // namespace/name
}

// Waiting is the requests of a pod without a node, and the plan's decision on it.
type Waiting struct {
	Owner string // "ReplicaSet web", or nothing
	Asks  string // "1 cpu, 2 GiB memory"
	Since time.Time
	Fate  Fate
	// On is the launch, node or claim on which the pod is planned.
	On string
	// Why differs for pods that are refused for different reasons.
	Why string
}

// Fate is the plan's decision on a pod that waits.
type Fate int

const (
	Refused   Fate = iota // nothing can run it
	Starts                // a machine has to be started for it
	Placed                // a machine that is there, or on its way, has room for it
	Unplanned             // nothing is planned for it yet
)

// Kind is a kind of object that can be explained.
type Kind string

const (
	KindPod   Kind = "pod"
	KindNode  Kind = "node"
	KindClaim Kind = "claim"
	KindPool  Kind = "pool"

	KindGroup   Kind = "podgroup"
	KindRequest Kind = "provisioningrequest"
)

// An Explanation describes why an object is in its state: the document of tenon explain -o json, and its story as text.
type Explanation struct {
	Document []byte
	Story    Story
	// Reasons list, for a pod that nothing can run, the properties of each NodePool that do not fit.
	Reasons []Reason
}

// A Story is the output of tenon explain.
type Story struct {
	Kind, Name, Headline string
	Parts                []Part
}

// A Part of a story is text behind a title, lines, facts or a table. The first row of a table is its heading.
type Part struct {
	Title    string
	Alarming bool
	Text     string
	Lines    []string
	Facts    []Fact
	Rows     [][]string
}

// A Fact is a text about an object.
type Fact struct{ Name, Text string }

// A Reason is a property of a NodePool that does not fit a pod, with the nearest value that there is.
type Reason struct {
	Code, NodePool, Key, Need, Have, Message string
}

// nodesDocument is the part of tenon nodes' document that the page shows.
type nodesDocument struct {
	PricePerHour float64 `json:"pricePerHour"`
	Unpriced     int     `json:"unpriced"`
	Waiting      int     `json:"waiting"`
	CPU          Share   `json:"cpu"`
	Memory       Share   `json:"memory"`
	Nodes        []node  `json:"nodes"`
}

// Share is how much of something is requested, in cores or bytes.
type Share struct {
	Requested   float64 `json:"requested"`
	Allocatable float64 `json:"allocatable"`
}

// Of returns the share. It returns 0 if nothing is allocatable.
func (s Share) Of() float64 {
	if s.Allocatable <= 0 {
		return 0
	}
	return s.Requested / s.Allocatable
}

func (s *Share) add(other Share) {
	s.Requested, s.Allocatable = s.Requested+other.Requested, s.Allocatable+other.Allocatable
}

// node is a row of that document.
type node struct {
	Node         string    `json:"node"`
	Claim        string    `json:"claim"`
	NodePool     string    `json:"nodePool"`
	InstanceType string    `json:"instanceType"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	PricePerHour *float64  `json:"pricePerHour"`
	Created      time.Time `json:"created"`
	State        string    `json:"state"`
	CPU          Share     `json:"cpu"`
	Memory       Share     `json:"memory"`
	Pods         int       `json:"pods"`
	Kept         *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"kept"`
	Disruption string `json:"disruption"`

	age time.Duration // 0 if it is not known when it was created
}

// ageWords returns the age of the node, as tenon nodes does.
func (n *node) ageWords() string {
	if n.Created.IsZero() {
		return "-"
	}
	return ageWords(n.age)
}

// Goes reports whether the node would be removed now.
func (n *node) Goes() bool { return n.Disruption != "" }

// IsTroubled reports whether something is wrong with the node.
func (n *node) IsTroubled() bool { return n.State == "not ready" || n.State == "node gone" }

// Standing returns the state as tenon nodes prints it.
func (n *node) Standing() string {
	if n.Goes() {
		return "goes"
	}
	return n.State
}

// Price returns the price of the node per hour, as far as it is known.
func (n *node) Price() float64 {
	if n.PricePerHour == nil {
		return 0
	}
	return *n.PricePerHour
}

// planDocument is the part of tenon plan's document that the page shows.
type planDocument struct {
	Launches []launch `json:"launches"`
	Cost     struct {
		LaunchesPerHour float64  `json:"launchesPerHour"`
		Bound           *float64 `json:"bound"`
		Gap             *float64 `json:"gap"`
	} `json:"cost"`
	Disruptions []struct {
		Nodes         []string `json:"nodes"`
		Reason        string   `json:"reason"`
		SavingPerHour float64  `json:"savingPerHour"`
	} `json:"disruptions"`
}

type launch struct {
	Name          string   `json:"name"`
	NodePool      string   `json:"nodePool"`
	Price         float64  `json:"price"`
	InstanceTypes []string `json:"instanceTypes"`
	Offerings     []struct {
		InstanceType string `json:"instanceType"`
		Zone         string `json:"zone"`
		CapacityType string `json:"capacityType"`
	} `json:"offerings"`
	Pods []string `json:"pods"`
}

// view is a picture with its documents read.
type view struct {
	*Picture
	nodes   nodesDocument
	plan    planDocument
	journal journalDocument
	version string // equal for pictures with the same content
	// journalVersion is equal for pictures with the same journal.
	journalVersion uint64
	sights         sights
}

// newView reads the documents of a picture.
func newView(p *Picture) (*view, error) {
	v := &view{Picture: p}
	if err := json.Unmarshal(p.Nodes, &v.nodes); err != nil {
		return nil, fmt.Errorf("read the document of the nodes: %w", err)
	}
	if err := json.Unmarshal(p.Plan, &v.plan); err != nil {
		return nil, fmt.Errorf("read the document of the plan: %w", err)
	}
	if p.Journal != nil {
		if err := json.Unmarshal(p.Journal, &v.journal); err != nil {
			return nil, fmt.Errorf("read the document of the journal: %w", err)
		}
	}
	for i := range v.nodes.Nodes {
		n := &v.nodes.Nodes[i]
		if !n.Created.IsZero() {
			n.age = max(0, p.At.Sub(n.Created))
		}
	}
	sum := fnv.New64a()
	sum.Write(p.Nodes)
	sum.Write(p.Plan)
	for i := range p.Pods {
		sum.Write([]byte(p.Pods[i].Name + "\x00" + p.Pods[i].Node + "\x00"))
	}
	fmt.Fprint(sum, p.Notes, p.Namespaces, p.Buffers, p.Together)
	v.version = fmt.Sprintf("%016x", sum.Sum64())
	sum.Reset()
	fmt.Fprint(sum, p.NoJournal)
	sum.Write(p.Journal)
	v.journalVersion = sum.Sum64()
	return v, nil
}
