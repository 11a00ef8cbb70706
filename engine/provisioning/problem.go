package provisioning

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// Reading holds the machines and the pods of a snapshot, under the assumptions of a trial if there is one. It decides which pods need a place, and on
// which machines pods are expected.
type Reading struct {
	Snapshot    *engine.Snapshot
	opt         engine.Options
	parts       int            // the divisor of the limits on rules (see readProblem)
	trial       *Trial         // nil for none
	guards      *budget.Guards // nil until they are needed
	Pods        *inventory.PodIndex
	Constraints *constraints.Reader
	Machines    []*inventory.Machine // every machine
	Gangs       *gang.Gangs          // nil for none
	holds       booking.Holds        // pods that ProvisioningRequests find machines for
	Backoffs    *constraints.LaunchBackoffs
	moving      map[*corev1.Pod]bool // pods that leave their machine
	// proposed holds, for each leaving pod, the machine that was started for it. The pod is placed there if there is room.
	proposed map[*corev1.Pod]*inventory.Machine
	refused  []engine.Unplaced // pods that are not part of the packing problem
}

// Problem is a reading compiled to numbers and sets, with the objects that these represent.
type Problem struct {
	*Reading
	InterPod  *constraints.InterPod
	Names     *kube.ResourceNames
	namesText string // all of Names in their order, as text
	universe  *requirement.Universe
	Targets   []*inventory.Machine // machines that may take pods: the nodes of the packing problem
	Pools     []*offering.Pool
	broken    []engine.Note // pools that cannot be used, and why
	Classes   []*podClass
	values    *offering.LabelValues
	daemons   []constraints.DaemonSet
	pending   []*constraints.DaemonSet // DaemonSets of which a machine has no pod yet
	places    map[string]*where
	ways      map[string]*packing.Ways // one object for equal ways, by the options that they admit
	levels    map[relaxationKey][]packing.Level
	requests  map[*inventory.RequestClass]capacity.Vector
	supplies  limitedSupplies
	learned   map[*engine.InstanceType]*resource.Quantity // the memory of running machines by type
	cover     []offering.Cover                            // commitments with an unused part
	owners    capacity.Names                              // controllers of waiting pods
	// shared assigns an index to each volume of waiting pods that more than one pod may use on a node.
	shared map[volume.Attachment]int
	// devices assigns an index, after those of shared, to each device claim that several pods wait for.
	devices map[string]int
	Packing *packing.Problem
	looked  int           // the number of looks at values and rules, for measurements
	work    *atomic.Int64 // effort of the packing, for measurements; nil for none
}

type relaxationKey struct {
	constraints *constraints.PodConstraints
	matched     string
	roomy       bool
}
