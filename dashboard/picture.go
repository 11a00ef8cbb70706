package dashboard

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"
)

// A Picture is what is known of a cluster at one instant. It never changes.
type Picture struct {
	// Cluster is what the cluster or its file is called, At when it was read, Notes what readers should know beside.
	Cluster string
	At      time.Time
	Notes   []string
	// Nodes and Plan are the documents of tenon nodes -o json and tenon plan --disrupt -o json.
	Nodes, Plan []byte
	// Journal is the document of tenon journal -o json, nil without one; NoJournal says why there is none.
	Journal   []byte
	NoJournal string
	// Costs are what the machines cost from each time on, as far as the journal tells, the oldest first.
	Costs []Cost
	// Decision tells of one of its decisions as tenon journal ID does. An error says that there is no such decision.
	Decision func(id string) (*Explanation, error)
	// Savings is the document of tenon savings -o json, made when it is asked for first. An error says why nothing can be compared.
	Savings func() ([]byte, error)
	// Namespaces is what each has of the nodes' price, Buffers what room is kept, and what it costs.
	Namespaces []NamespaceCost
	Buffers    []Buffer
	// Pods are all pods, NodePools the names of all pools. Together are the PodGroups and ProvisioningRequests.
	Pods      []Pod
	NodePools []string
	Together  []Together
	// Explain answers as tenon explain does. It may be asked by many at once. An error says that there is no such object.
	Explain func(kind Kind, name string) (*Explanation, error)
	// Manifests are what of the cluster a change may begin with, in order of their kinds.
	Manifests []Manifest
	// Try answers what would come of objects as a text has them, as tenon plan --disrupt does; nothing is changed. It may be asked by
	// several at once. Once stop says that nobody waits any more it ends soon, and its answer is of no use. nil where nothing can be tried.
	Try func(text []byte, stop func() bool) (*Outcome, error)
	// Day is what a change can be compared over, nil without one; NoDay says why there is none.
	Day   *Day
	NoDay string
}

// A Cost is what the machines cost from a time on, in USD per hour.
type Cost struct {
	Time         time.Time
	PricePerHour float64
}

// A Pod is where a pod is, or what becomes of one that waits.
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

// Waiting is what a pod that no node runs asks for, and what becomes of it.
type Waiting struct {
	Owner string // "ReplicaSet web", or nothing
	Asks  string // "1 cpu, 2 GiB memory"
	Since time.Time
	Fate  Fate
	// On is the launch, node or claim that it is to run on.
	On string
	// Why tells pods apart that are refused for different reasons.
	Why string
}

// Fate is what the plan does with a pod that waits.
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

// An Explanation is why an object is as it is: the document of tenon explain -o json, and its story for people.
type Explanation struct {
	Document []byte
	Story    Story
	// Reasons say pool by pool what does not fit, for a pod that nothing can run.
	Reasons []Reason
}

// A Story is what tenon explain prints.
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

// A Fact is a text and what it is about.
type Fact struct{ Name, Text string }

// A Reason is something of a pool that does not fit a pod, with the nearest that there is.
type Reason struct {
	Code, NodePool, Key, Need, Have, Message string
}

// nodesDocument is what is shown of the document of tenon nodes.
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

// Of is the share, 0 of nothing.
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

// ageWords says how old the node is, as tenon nodes does.
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

// Standing is the state as tenon nodes prints it.
func (n *node) Standing() string {
	if n.Goes() {
		return "goes"
	}
	return n.State
}

// Price is what the node costs in an hour, as far as that is known.
func (n *node) Price() float64 {
	if n.PricePerHour == nil {
		return 0
	}
	return *n.PricePerHour
}

// planDocument is what is shown of the document of tenon plan.
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
	version string // the same for pictures that show the same
	// journalVersion is the same for those whose journal shows the same.
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
