package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/volume"
)

// nodeInfo is a node of a replay: an existing node as it will be after its initialization, or a planned one.
type nodeInfo struct {
	name   string // the name of the Node; before it exists, of its claim; before that, of the launch
	claim  *v1.NodeClaim
	launch *engine.Launch // nil for existing machines
	node   *corev1.Node
	info   *inventory.NodeInfo
	csi    *storagev1.CSINode
	taints []corev1.Taint

	starts           bool                       // it is not initialized yet, or has no Node
	used             bool                       // a pod of the replay has landed here
	ports            kube.HostPorts             // the ports of pods on the node, and of nominated pods
	volumes          map[volume.Attachment]bool // attached volumes; nil for none
	limits, attached map[string]int             // volumes by driver; nil for none
	disks            volume.Disks
	daemons          []string // DaemonSets that have a pod here
}

// readNodes lists the nodes for the pods: existing nodes by name, then claims without a node, then launches in their order.
func (state *replayState) readNodes() {
	r := state.replay
	var p *predictor // only few replays need one
	predict := func() *predictor {
		if p == nil {
			p = newPredictor(r.Snapshot, state.cache)
		}
		return p
	}
	f := state.cache.MachineListOf(r.Snapshot)
	state.readExisting(f.ByName, f.Machines, f.Infos, predict)
	if r.On != nil {
		return
	}
	for _, i := range f.Nodeless {
		claim := f.Machines[i].Claim
		if f.Machines[i].Goes || f.Machines[i].IsGone(r.Snapshot.Now) || r.Removed[claim.Name] {
			continue
		}
		node, csi := predict().claim(claim)
		state.addNode(&nodeInfo{name: claim.Name, claim: claim, node: node, csi: csi})
	}
	for i := range r.Launches {
		l := &r.Launches[i]
		if len(l.Offerings) == 0 {
			continue
		}
		cheapest := slices.MinFunc(l.Offerings, func(a, b engine.LaunchOffering) int { return cmp.Compare(a.Price, b.Price) })
		if node, csi := predict().launch(l, cheapest.OfferingID); node != nil {
			state.addNode(&nodeInfo{name: l.Name, launch: l, node: node, csi: csi})
		}
	}
}

// readExisting lists the existing nodes, in the given order of machines.
func (state *replayState) readExisting(order []int, machines []*inventory.MachineInfo, infos []*inventory.NodeInfo, predict func() *predictor) {
	r := state.replay
	csi := map[string]*storagev1.CSINode{}
	for _, c := range r.Snapshot.CSINodes {
		csi[c.Name] = c
	}
	mounts := slices.ContainsFunc(r.Pods, func(p *corev1.Pod) bool { return volume.HasVolumes(&p.Spec) })
	slab := make([]nodeInfo, 0, len(order))
	for _, i := range order {
		h := machines[i]
		if r.On != nil && !r.On(h.Node) || r.On == nil && (h.Goes || r.Removed[h.Node.Name] || h.Claim != nil && r.Removed[h.Claim.Name]) {
			continue
		}
		slab = append(slab, nodeInfo{name: h.Node.Name, claim: h.Claim, node: h.Node, csi: csi[h.Node.Name]})
		n := &slab[len(slab)-1]
		if h.Initialized || h.Bare || r.On != nil {
			n.info = infos[i]
		} else { // the node object is made for this replay only
			n.node = asInitialized(h.Node, h.Claim)
			if expected := h.ExpectedType(); expected != nil && mounts {
				n.limits = predict().limits.On(n.csi, expected)
			}
		}
		state.addNode(n)
	}
}

func (state *replayState) addNode(n *nodeInfo) {
	n.taints = n.node.Spec.Taints
	if n.info == nil {
		n.info, n.starts = &inventory.NodeInfo{}, true
	}
	if n.limits == nil && n.csi != nil {
		n.limits = new(volume.AttachLimits).On(n.csi, nil)
	}
	state.byName[n.name] = len(state.nodes)
	state.nodes = append(state.nodes, n)
}

// asInitialized returns the node as it will be after its start: with the claim's labels, without startup taints, and with the claim's
// allocatable for resources that the node does not report yet.
func asInitialized(node *corev1.Node, claim *v1.NodeClaim) *corev1.Node {
	if claim == nil || node.Labels[v1.InitializedLabelKey] == "true" {
		return node
	}
	out := *node
	out.Labels = kube.PinnedLabels(claim.Spec.Requirements)
	maps.Copy(out.Labels, claim.Labels)
	maps.Copy(out.Labels, node.Labels)
	out.Labels[v1.RegisteredLabelKey], out.Labels[v1.InitializedLabelKey] = "true", "true"
	taints := node.Spec.Taints
	if node.Labels[v1.RegisteredLabelKey] != "true" {
		taints = slices.Concat(taints, v1.CoreTaints(claim.Spec.Taints))
	}
	out.Spec.Taints = slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return kube.IsEphemeralTaint(t) || kube.IsStartupTaint(claim, t) || kube.IsUndeclared(claim, t)
	})
	out.Status.Allocatable = kube.Filled(node.Status.Allocatable, claim.Status.Allocatable)
	return &out
}

// look returns a text that is equal for nodes that no pod can distinguish by these labels.
func (n *nodeInfo) look(keys []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%t", n.node.Spec.Unschedulable)
	for _, key := range keys {
		if value, there := n.label(key); there {
			fmt.Fprintf(&b, "%q", value)
		}
		b.WriteByte(0)
	}
	for _, t := range n.taints {
		fmt.Fprintf(&b, "%q%q%q", t.Key, t.Value, t.Effect)
	}
	return b.String()
}

// attach counts a volume on the node, once.
func (n *nodeInfo) attach(v volume.Attachment) {
	if n.volumes == nil {
		n.attached, n.volumes = map[string]int{}, map[volume.Attachment]bool{}
	}
	if !n.volumes[v] {
		n.volumes[v] = true
		n.attached[v.Driver]++
	}
}
