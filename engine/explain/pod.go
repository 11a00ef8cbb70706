package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/ondemand"
)

// Outcome says what becomes of a pod.
type Outcome string

const (
	OutcomeRunning   Outcome = "Running"   // a node runs it
	OutcomeLaunch    Outcome = "Launch"    // a new machine is started for it
	OutcomePlacement Outcome = "Placement" // it fits a machine that is there or has been asked for
	OutcomeRefused   Outcome = "Refused"   // nothing can run it
	OutcomeElsewhere Outcome = "Elsewhere" // another autoscaler starts a node for it, or may: no machine is started yet
	OutcomeUntried   Outcome = "Untried"   // kube-scheduler has not said yet that it finds no node
	OutcomeGated     Outcome = "Gated"     // its scheduling gates hold it back
	OutcomeDaemonSet Outcome = "DaemonSet" // the DaemonSet controller chooses its node
	OutcomeStatic    Outcome = "Static"    // a kubelet runs it from a file of its own
	OutcomeEnded     Outcome = "Ended"     // it has run to its end
	OutcomeEnding    Outcome = "Ending"    // it has been told to stop
)

// PodExplanation is the record of what becomes of one pod, and why.
type PodExplanation struct {
	Pod      string            `json:"pod"`
	Outcome  Outcome           `json:"outcome"`
	Summary  string            `json:"summary"`
	Requests map[string]string `json:"requests"`
	// From is the node that runs the pod, if that node is leaving and the pod needs another place.
	From string `json:"from,omitempty"`
	// Machine is where the pod runs or is to run.
	Machine *MachineRecord `json:"machine,omitempty"`
	// Launch is there if that machine has to be started.
	Launch *LaunchRecord `json:"launch,omitempty"`
	// Resize is there if the pod was resized in place and its node does not give that yet, or never will.
	Resize *ResizeRecord `json:"resize,omitempty"`
	// OtherGroups names the groups of nodes that no NodePool owns and that the pod is for, if nothing can run it.
	OtherGroups []string `json:"otherGroups,omitempty"`
	// Notes say what the pod may not expect of its place.
	Notes []string `json:"notes,omitempty"`
	// Reasons say why nothing can run the pod, pool by pool.
	Reasons []engine.ReasonRecord `json:"reasons,omitempty"`
}

// MachineRecord is a machine as the place of one pod. Prices are in USD per hour, null if they are not known.
type MachineRecord struct {
	Node         string   `json:"node,omitempty"`
	Claim        string   `json:"claim,omitempty"`
	NodePool     string   `json:"nodePool,omitempty"`
	InstanceType string   `json:"instanceType,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	CapacityType string   `json:"capacityType,omitempty"`
	PricePerHour *float64 `json:"pricePerHour"`
	// Share is the largest share of any resource of the machine that the pod asks for, ShareOf that resource.
	Share   float64             `json:"share"`
	ShareOf corev1.ResourceName `json:"shareOf,omitempty"`
}

// Words says what the machine is.
func (m *MachineRecord) Words() string {
	text := cmp.Or(m.InstanceType, "a machine of unknown type")
	if m.Zone != "" {
		text += " in " + m.Zone
	}
	if m.CapacityType != "" {
		text += ", " + m.CapacityType
	}
	return text
}

// ExplainPod says what becomes of the pod. The plan is what provisioning.Plan answers for the snapshot and the options.
func ExplainPod(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, pod *corev1.Pod) PodExplanation {
	x := &podExplainer{s: s, opt: opt, plan: plan, pod: pod, prices: inventory.NewPriceBook(s)}
	x.story = PodExplanation{Pod: kube.PodID(pod).String(), Requests: quantityTexts(kube.PodRequests(pod))}
	x.settle()
	if m := x.story.Machine; m != nil {
		var ref *v1.NodeClassReference
		if pool := kube.PoolsByName(s)[m.NodePool]; pool != nil {
			ref = pool.Spec.Template.Spec.NodeClassRef
		}
		x.story.Notes = notDivided(pod, kube.NewTypeIndex(s).Find(ref, m.NodePool, m.InstanceType))
	}
	if x.story.Resize = x.pendingResize(); x.story.Resize != nil {
		x.story.Notes = append(x.story.Notes, x.story.Resize.sentence(pod.Spec.NodeName))
	}
	x.story.Notes = append(x.story.Notes, claimNotes(s, pod)...)
	for _, n := range plan.Notes {
		if n.Object == "Pod "+x.story.Pod {
			x.story.Notes = append(x.story.Notes, n.Reason.Message())
		}
	}
	if text := ondemand.Sentence(s, pod); text != "" {
		x.story.Notes = append(x.story.Notes, text)
	}
	x.story.Summary = x.summary()
	return x.story
}

// podExplainer is the state of one ExplainPod.
type podExplainer struct {
	s      *engine.Snapshot
	opt    engine.Options
	plan   *engine.Plan
	pod    *corev1.Pod
	prices *inventory.PriceBook
	story  PodExplanation
}

func (x *podExplainer) settle() {
	pod := x.pod
	switch {
	case kube.IsTerminal(pod):
		x.story.Outcome = OutcomeEnded
		return
	case x.planned():
		x.story.From = pod.Spec.NodeName
		return
	case kube.IsTerminating(pod):
		x.story.Outcome = OutcomeEnding
	case pod.Spec.NodeName != "":
		x.story.Outcome = OutcomeRunning
	case kube.OwnedByDaemonSet(pod):
		x.story.Outcome = OutcomeDaemonSet
	case kube.IsMirror(pod):
		x.story.Outcome = OutcomeStatic
	case len(pod.Spec.SchedulingGates) > 0:
		x.story.Outcome = OutcomeGated
	default:
		x.story.Outcome = OutcomeUntried
	}
	if pod.Spec.NodeName != "" {
		x.story.Machine = x.existing(pod.Spec.NodeName, "")
	}
}

// planned looks the pod up in the plan. A running pod is there if its node is leaving.
func (x *podExplainer) planned() bool {
	id := kube.PodID(x.pod)
	for i := range x.plan.Launches {
		if l := &x.plan.Launches[i]; slices.Contains(l.Pods, id) {
			x.story.Outcome = OutcomeLaunch
			x.launched(l)
			return true
		}
	}
	for _, p := range x.plan.Placements {
		if p.Pod == id {
			x.story.Outcome = OutcomePlacement
			x.story.Machine = x.existing(p.Node, p.Claim)
			return true
		}
	}
	for _, u := range x.plan.Unplaced {
		if u.Pod == id {
			x.story.Outcome = OutcomeRefused
			if slices.ContainsFunc(u.Reasons, isElsewhere) {
				x.story.Outcome = OutcomeElsewhere
			}
			x.story.Reasons = reasonRecords(u.Reasons)
			return true
		}
	}
	return false
}

func isElsewhere(r engine.Reason) bool {
	return r.Code == engine.ServedElsewhere || r.Code == engine.LaunchDelayed || r.Code == engine.LeftToFargate
}

// existing is a machine that is there, or has been asked for and has no node yet.
func (x *podExplainer) existing(name, claimName string) *MachineRecord {
	m := &MachineRecord{Claim: claimName}
	var labels map[string]string
	var allocatable corev1.ResourceList
	for _, n := range x.s.Nodes {
		if n.Name == name {
			m.Node, labels, allocatable = name, n.Labels, n.Status.Allocatable
		}
	}
	var class *v1.NodeClassReference
	for _, c := range x.s.NodeClaims {
		if c.Name != m.Claim && (m.Node == "" || c.Status.NodeName != m.Node) {
			continue
		}
		m.Claim, class = c.Name, c.Spec.NodeClassRef
		if m.Node == "" {
			labels, allocatable = c.Labels, c.Status.Allocatable
		}
	}
	if m.Node == "" && m.Claim == "" {
		m.Node = name // it is not in the snapshot
	}
	m.describe(labels, x.prices, class)
	m.Share, m.ShareOf = largestShare(kube.PodRequests(x.pod), allocatable)
	return m
}

// describe reads the machine's labels.
func (m *MachineRecord) describe(labels map[string]string, prices *inventory.PriceBook, class *v1.NodeClassReference) {
	id := inventory.MachineOffering(labels)
	m.NodePool, m.InstanceType, m.Zone = labels[v1.NodePoolLabelKey], id.InstanceType, id.Zone
	if id.InstanceType != "" {
		m.CapacityType = id.CapacityType
	}
	if price, known := prices.Price(labels, class); known {
		m.PricePerHour = &price
	}
}

// summary says the story in a sentence.
func (x *podExplainer) summary() string {
	pod, m := x.pod, x.story.Machine
	switch x.story.Outcome {
	case OutcomeEnded:
		return fmt.Sprintf("it has run to its end (%s) and needs no node", pod.Status.Phase)
	case OutcomeEnding:
		return "it has been told to stop and needs no other node"
	case OutcomeRunning:
		text := "it runs on node " + m.Node + x.group(m)
		if kube.OwnedByDaemonSet(pod) {
			text += ", where its DaemonSet wants it; such pods start no machines and keep none"
		}
		if r := x.story.Resize; r != nil {
			text += ", and its resize is " + r.Reason
		}
		return text
	case OutcomeDaemonSet:
		return "the DaemonSet controller chooses its node; such pods start no machines, but every new machine has room for them"
	case OutcomeStatic:
		return "the kubelet of its node runs it from a file; no scheduler places it"
	case OutcomeGated:
		var gates []string
		for _, g := range pod.Spec.SchedulingGates {
			gates = append(gates, g.Name)
		}
		return "it is held back by its scheduling gates: " + strings.Join(gates, ", ")
	case OutcomeUntried:
		if g := gang.Read(x.s).Of(pod); g != nil && !g.Suffices(len(g.Waiting)) {
			return "it waits: " + g.TooSmall().Message()
		}
		return untried(pod)
	case OutcomeElsewhere:
		return "it waits: " + engine.Sentence(x.reasons())
	case OutcomePlacement:
		return x.placed(m)
	case OutcomeLaunch:
		return x.leaves() + "a machine has to be started for it: " + x.story.Launch.sentence
	}
	return x.leaves() + "nothing can run it: " + engine.Sentence(x.reasons()) + x.admittedBy()
}

// group says whose node it is, if no NodePool owns it and it is known.
func (x *podExplainer) group(m *MachineRecord) string {
	i := slices.IndexFunc(x.s.Nodes, func(n *corev1.Node) bool { return n.Name == m.Node })
	if m.Claim != "" || m.NodePool != "" || i < 0 {
		return ""
	}
	return foreign(x.s.Nodes[i])
}

// admittedBy names the groups of nodes beside all NodePools that the pod is for, as far as labels and taints tell.
func (x *podExplainer) admittedBy() string {
	var names []string
	for _, g := range OtherGroups(x.s) {
		if g.Admits(x.pod) {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	x.story.OtherGroups = names
	return "; " + OtherGroupsSentence(names)
}

func (x *podExplainer) reasons() []engine.Reason {
	var out []engine.Reason
	for _, r := range x.story.Reasons {
		out = append(out, r.Reason())
	}
	return out
}

// leaves says first that a running pod's node goes.
func (x *podExplainer) leaves() string {
	if x.story.From == "" {
		return ""
	}
	return "its node " + x.story.From + " is leaving, and "
}

func (x *podExplainer) placed(m *MachineRecord) string {
	switch {
	case m.Node == "":
		return x.leaves() + "the machine of NodeClaim " + m.Claim + ", which has been asked for, has room for it"
	case x.pod.Status.NominatedNodeName == m.Node:
		return "it is nominated to node " + m.Node
	}
	return x.leaves() + "node " + m.Node + " has room for it; kube-scheduler is to bind it there"
}

func untried(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason != "" {
			return fmt.Sprintf("it waits for kube-scheduler, which says %s%s; a machine is started only once that is %s", c.Reason,
				prefixed(": ", c.Message), corev1.PodReasonUnschedulable)
		}
	}
	return "it waits for kube-scheduler, which has not tried it yet"
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
