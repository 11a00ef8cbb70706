package simulated

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// NodeFault is a fault of a running machine's node, or the publication of its devices. The package that shows the machines as nodes carries
// it out, and then calls Settle.
type NodeFault struct {
	ID      string
	Machine engine.MachineID
	At      time.Time
	Fault   Fault
	// Pool is the pool of devices that a driver publishes, and Part is the published part of Parts. They are set for the kind slices, which
	// every machine with devices has, even without a fault. The first pool of a driver has the node's name.
	Pool        *device.Template
	Part, Parts int
}

// SecondSuffix follows the name of the first node in the name of a machine's second node.
const SecondSuffix = "-second"

// begin records the faults that hit a machine that starts, and returns the delay of its registration.
func (c *Cloud) begin(r *Record, now time.Time) (later time.Duration) {
	for _, what := range []string{FaultLateRegister, FaultLess, FaultTaint, FaultLabel, FaultDevices, FaultAttach, FaultSlices} {
		for _, f := range c.active(what, now) {
			switch {
			case !c.hits(f, r):
			case what == FaultLateRegister:
				later += f.Lag.Duration
			default:
				r.Comes = append(r.Comes, f)
			}
		}
	}
	return later
}

// foretell records the faults of the node of a machine that has just been started.
func (c *Cloud) foretell(r *Record) {
	for _, f := range r.Comes {
		if f.What == FaultDevices && f.Factor > 0 {
			q := r.Machine.Capacity[corev1.ResourceName(f.Resource)]
			f.Count = int(min(1<<40, float64(q.Value())*f.Factor))
		}
		if !r.Registers.IsZero() && (f.What == FaultLabel || f.What == FaultAttach || f.What == FaultDevices) {
			c.enter(r, f, r.Registers.Add(f.Lag.Duration))
		}
	}
	c.foretellDevices(r)
}

// foretellDevices records the devices that drivers will publish for a machine.
func (c *Cloud) foretellDevices(r *Record) {
	t := c.types[r.Offering.InstanceType]
	if t == nil || r.Registers.IsZero() {
		return
	}
	pools := t.Claimable
	if c.cfg.Devices != nil {
		pools = c.cfg.Devices(r.Machine.Claim, t)
	}
	for i := range pools {
		pool, f := pools[i], Fault{What: FaultSlices, Factor: 1}
		for _, o := range r.Comes {
			if o.What == FaultSlices && (o.Driver == "" || o.Driver == pool.Driver) {
				f = o
			}
		}
		if !slices.ContainsFunc(pools[:i], func(o device.Template) bool { return o.Driver == pool.Driver }) {
			pool.Pool = ""
		}
		most := max(mostDevices, len(pool.Devices))
		pool.Devices = resized(&pool, min(most, cmp.Or(f.Count, int(min(float64(most), float64(len(pool.Devices))*f.Factor)))))
		if len(pool.Devices) == 0 {
			continue
		}
		parts := dra.SlicesOf(&pool, f.Parts)
		for part := range parts {
			id := nodeFaultID(r.Machine.ID, f) + "/" + pool.Driver + "/" + pool.Pool + "/" + strconv.Itoa(part)
			c.nodeFaults[id] = NodeFault{ID: id, Machine: r.Machine.ID, At: r.Registers.Add(time.Duration(part+1) * f.Lag.Duration), Fault: f, Pool: &pool, Part: part, Parts: parts}
		}
	}
}

// resized returns n devices of the pool. If the pool has fewer, copies of its last device follow.
func resized(pool *device.Template, n int) []device.Expected {
	out := slices.Clone(pool.Devices[:min(n, len(pool.Devices))])
	for len(pool.Devices) > 0 && len(out) < n {
		more := pool.Devices[len(pool.Devices)-1]
		more.Name = "more-" + strconv.Itoa(len(out))
		out = append(out, more)
	}
	return out
}

// Slice returns the slice that a driver of devices publishes for the node, for the kind slices.
func (m NodeFault) Slice(node *corev1.Node) *resourcev1.ResourceSlice {
	return dra.PublishedSlice(node, m.Pool, m.Part, m.Parts)
}

func (c *Cloud) enter(r *Record, f Fault, at time.Time) {
	id := nodeFaultID(r.Machine.ID, f)
	c.nodeFaults[id] = NodeFault{ID: id, Machine: r.Machine.ID, At: at, Fault: f}
}

func nodeFaultID(id engine.MachineID, f Fault) string {
	return strings.Join([]string{string(id), f.What, f.Label + f.Driver + f.Resource, f.At.Duration.String(), f.Lag.Duration.String()}, "/")
}

// NodeFaults lists the faults that are due by now and not settled, in order of time.
func (c *Cloud) NodeFaults() []NodeFault {
	now := c.lock()
	defer c.mu.Unlock()
	var due []NodeFault
	for _, m := range c.nodeFaults {
		if r := c.machines[m.Machine]; r == nil || r.gone(now) {
			delete(c.nodeFaults, m.ID)
		} else if !m.At.After(now) {
			due = append(due, m)
		}
	}
	slices.SortFunc(due, func(a, b NodeFault) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return due
}

// Settle records that a fault of a node has been carried out.
func (c *Cloud) Settle(id string) {
	c.lock()
	defer c.mu.Unlock()
	settled := c.nodeFaults[id]
	delete(c.nodeFaults, id)
	if r := c.machines[settled.Machine]; r != nil && settled.Fault.What == FaultBare {
		c.foretellDevices(r) // the kubelet creates the node again, and its drivers start again
	}
}

// Dress changes a node that is about to register according to the machine's faults.
func (c *Cloud) Dress(node *corev1.Node) {
	c.lock()
	defer c.mu.Unlock()
	r := c.machines[engine.MachineID(node.Spec.ProviderID)]
	if r == nil {
		return
	}
	for _, f := range r.Comes {
		switch f.What {
		case FaultLess:
			name := corev1.ResourceName(f.Resource)
			node.Status.Capacity, node.Status.Allocatable = less(node.Status.Capacity, name, f.Factor), less(node.Status.Allocatable, name, f.Factor)
		case FaultDevices: // the device plugin starts later
			name := corev1.ResourceName(f.Resource)
			node.Status.Capacity, node.Status.Allocatable = less(node.Status.Capacity, name, 0), less(node.Status.Allocatable, name, 0)
		case FaultTaint:
			t, gone := taintOf(f.Taint)
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect })
			if !gone {
				node.Spec.Taints = append(node.Spec.Taints, t)
			}
		}
	}
}

// less returns the list with factor times as much of one resource, rounded down to its smallest unit.
func less(list corev1.ResourceList, name corev1.ResourceName, factor float64) corev1.ResourceList {
	q, found := list[name]
	if !found {
		return list
	}
	list = maps.Clone(list)
	if name == corev1.ResourceCPU {
		list[name] = *resource.NewMilliQuantity(int64(float64(q.MilliValue())*factor), q.Format)
	} else {
		list[name] = *resource.NewQuantity(int64(float64(q.Value())*factor), q.Format)
	}
	return list
}

// Relabel changes the labels of a node according to a fault of the kind label.
func (m NodeFault) Relabel(node *corev1.Node) {
	key, value, gone := labelOf(m.Fault.Label)
	if delete(node.Labels, key); !gone {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
}

// Show sets the devices that the device plugin of a node shows, for a fault of the kind devices.
func (m NodeFault) Show(node *corev1.Node) {
	for _, list := range []*corev1.ResourceList{&node.Status.Capacity, &node.Status.Allocatable} {
		if *list = maps.Clone(*list); *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceName(m.Fault.Resource)] = *resource.NewQuantity(int64(m.Fault.Count), resource.DecimalSI)
	}
}

// CSINode returns the CSINode of a node's drivers, for a fault of the kind attach.
func (m NodeFault) CSINode(node *corev1.Node) *storagev1.CSINode {
	count := int32(m.Fault.Count)
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: m.Fault.Driver, NodeID: node.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}
}
