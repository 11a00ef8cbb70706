package disruption

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/limits"
	"tenon.sh/engine/provisioning"
)

// planner holds the decisions of one Plan so far.
type planner struct {
	*candidates
	given    *engine.Snapshot // s before anything was added to it
	opt      engine.Options
	moves    *budget.OwnerMoves
	expected map[*inventory.Machine]*corev1.Pod   // a pod that will run on the machine
	moved    map[*inventory.Machine]*corev1.Pod   // one of the pods that this pass moves to the machine
	assigned map[*corev1.Pod]int                  // for pods that need a place anyway, the Machine.Number of the machine that will run each
	verdicts map[*inventory.Machine]engine.Reason // why no method except repair may disrupt a machine
	taken    map[*inventory.Machine]bool          // machines chosen for removal
	why      map[*inventory.Machine]engine.Reason // why a machine is kept
	launched map[string]int                       // the number of launches of each pool
	stamps   map[string]stamp                     // the stamp of each static pool
	usage    *limits.Usage                        // nil until it is needed
	replaced map[string]int                       // by static pool, the number of nodes that this pass replaces
	totals   map[string]balance                   // the balance of each pool; nil until it is needed
	awaited  map[string]engine.PodID              // the result of awaits for each reservation
	plan     *engine.Plan
}

// consolidator holds the state of one call of consolidate.
type consolidator struct {
	*planner
	sources     []*inventory.Machine
	index       []int                               // the index of each source in sources, by Machine.Number
	cost        []float64                           // the cost of moving the pods of each source, in USD
	settled     []float64                           // this cost once no pod is young
	worth       []float64                           // the worth of a unit of each resource for the pods of the problem, in USD per hour
	market      []float64                           // the price of a unit of each resource where whole machines are used up, in USD per hour
	values      map[*inventory.RequestClass]float64 // the worth of pods, by their requests, at the market's prices, in USD per hour
	core        float64                             // the worth of a core, in USD per hour
	problem     *provisioning.Problem               // the packing problem for the pods of the sources
	classes     []searchClass
	domains     map[ruledPlace]string // the result of domainsOf for each place
	found       []*inventory.Machine
	nominations map[*corev1.Pod]int // by pod, the Machine.Number of the machine where the search puts it
	batches     map[string]int      // the batch of each node that is replaced
	tried       attempted
	later       map[*inventory.Machine]engine.Reason // why some of the found machines are removed after the others
	nextTurn    []*inventory.Machine                 // machines to remove once budgets allow one more
	passed      []*inventory.Machine                 // machines that are left out because they were tried without success lately
	incremental bool                                 // the pass considers only machines that changed since the last look
	yielding    bool                                 // pods give up all preferences
	misses      []float64                            // the worth of the preferences of each machine's pods, by Machine.Number, in USD per hour
}

// attempted is the last trial. It is kept because a wave often has all machines of the trial.
type attempted struct {
	tried
	gone []*inventory.Machine
	onto map[*inventory.Machine][]*inventory.Machine // the result of ontoIdle; nil until it is needed
}

// candidates holds the machines of a snapshot, with the rules that decide whether each may be disrupted: budgets, protected pods, gangs, rollouts and
// earlier passes.
type candidates struct {
	s        *engine.Snapshot
	cache    *inventory.Cache
	passes   *engine.EarlierPasses
	room     provisioning.Room // the buffer pods in s: room of CapacityBuffers and ProvisioningRequests
	p        *provisioning.Problem
	budgets  map[string]*budget.Pass // by pool
	guards   *budget.Guards
	rollouts *inventory.Rollouts
	nodes    map[*v1.NodeClaim][]*inventory.Machine
	gangs    map[*gang.Gang]int       // for each gang, the number of its pods on machines chosen for removal
	halts    map[string]engine.Reason // by pool, why its nodes are not replaced for now; nil until the first call of halted
	order    []*inventory.Machine     // the result of ranked
	stays    []*engine.Reason         // why machines are not consolidatable, by Machine.Number; nil until it is needed
	ownerOf  map[string]string        // the keys of passes.Comings, by the UIDs of claims; nil without earlier passes
}

const (
	// usualPayback is the time within which a move must pay for itself if the pool sets none.
	usualPayback = 4 * time.Hour
	// leastShare and leastCore are the least saving of a move: a share of the price of the removed machines, and a share of the price of a core.
	leastShare = 0.01
	leastCore  = 0.03
	// strictness multiplies the cost of moving pods if a move starts machines.
	strictness = 10
	// mostAims bounds the trials of one search's result. Each trial leaves out the machines that failed in the one before.
	mostAims = 6
	// fewAims is this bound for a pass that looks only at a few machines.
	fewAims = 2
	// mostRetries bounds the repeated searches of a small cluster. Each leaves out the machines that the one before found but could not remove. As
	// many more searches also leave out the pools of these machines. Then the next pass continues.
	mostRetries = 4
	// manySources is the number of machines above which a trial spends no effort on its launches, because the next pass looks at them again.
	manySources = 1000
	// batchSize bounds the machines that are replaced together.
	batchSize = 64
	// narrowBand is the price band of replacements. The band is narrow because any price within it may be paid, and a higher one reduces the saving.
	narrowBand = 1.05
)
