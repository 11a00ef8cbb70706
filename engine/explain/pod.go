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

// Outcome is the state of a pod in the plan.
type Outcome string

const (
	OutcomeRunning   Outcome = "Running"   // a node runs it
	OutcomeLaunch    Outcome = "Launch"    // a new machine is started for it
	OutcomePlacement Outcome = "Placement" // it fits a machine that exists or starts already
	OutcomeRefused   Outcome = "Refused"   // nothing can run it
	OutcomeElsewhere Outcome = "Elsewhere" // another autoscaler starts a node for it, or may do so: Tenon waits
	OutcomeUntried   Outcome = "Untried"   // kube-scheduler has not yet reported that no node fits
	OutcomeGated     Outcome = "Gated"     // its scheduling gates hold it back
	OutcomeDaemonSet Outcome = "DaemonSet" // the DaemonSet controller chooses its node
	OutcomeStatic    Outcome = "Static"    // a kubelet runs it from a file
	OutcomeEnded     Outcome = "Ended"     // it has run to its end
	OutcomeEnding    Outcome = "Ending"    // it is being deleted
)

// PodExplanation is the record of a pod: its outcome in the plan, and the reasons.
type PodExplanation struct {
	Pod      string            `json:"pod"`
	Outcome  Outcome           `json:"outcome"`
	Summary  string            `json:"summary"`
	Requests map[string]string `json:"requests"`
	// From is the node that runs the pod, if that node is leaving and the pod needs another place.
	From string `json:"from,omitempty"`
	// Machine is the machine that runs or is to run the pod.
	Machine *MachineRecord `json:"machine,omitempty"`
	// Launch is set if that machine has to be started.
	Launch *LaunchRecord `json:"launch,omitempty"`
	// Resize is set if the pod was resized in place and its node has not granted the resize yet, or never can.
	Resize *ResizeRecord `json:"resize,omitempty"`
	// OtherGroups names the groups of nodes without a NodePool that admit the pod, if nothing can run it.
	OtherGroups []string `json:"otherGroups,omitempty"`
	// Notes are remarks on the pod's place, for example on devices that it shares.
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

// Words describes the machine in words.
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

// ExplainPod returns the record of the pod. The plan is the result of provisioning.Plan for the snapshot and the options.
func ExplainPod(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, pod *corev1.Pod) PodExplanation {
	e := &podExplainer{s: s, opt: opt, plan: plan, pod: pod, prices: inventory.NewPriceBook(s)}
	e.story = PodExplanation{Pod: kube.PodID(pod).String(), Requests: quantityTexts(kube.PodRequests(pod))}
	e.settle()
	if m := e.story.Machine; m != nil {
		var ref *v1.NodeClassReference
		if pool := kube.PoolsByName(s)[m.NodePool]; pool != nil {
			ref = pool.Spec.Template.Spec.NodeClassRef
		}
		e.story.Notes = notDivided(pod, kube.NewTypeIndex(s).Find(ref, m.NodePool, m.InstanceType))
	}
	if e.story.Resize = e.pendingResize(); e.story.Resize != nil {
		e.story.Notes = append(e.story.Notes, e.story.Resize.sentence(pod.Spec.NodeName))
	}
	e.story.Notes = append(e.story.Notes, claimNotes(s, pod)...)
	for _, n := range plan.Notes {
		if n.Object == "Pod "+e.story.Pod {
			e.story.Notes = append(e.story.Notes, n.Reason.Message())
		}
	}
	if text := ondemand.Sentence(s, pod); text != "" {
		e.story.Notes = append(e.story.Notes, text)
	}
	e.story.Summary = e.summary()
	return e.story
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

func (e *podExplainer) settle() {
	pod := e.pod
	switch {
	case kube.IsTerminal(pod):
		e.story.Outcome = OutcomeEnded
		return
	case e.planned():
		e.story.From = pod.Spec.NodeName
		return
	case kube.IsTerminating(pod):
		e.story.Outcome = OutcomeEnding
	case pod.Spec.NodeName != "":
		e.story.Outcome = OutcomeRunning
	case kube.OwnedByDaemonSet(pod):
		e.story.Outcome = OutcomeDaemonSet
	case kube.IsMirror(pod):
		e.story.Outcome = OutcomeStatic
	case len(pod.Spec.SchedulingGates) > 0:
		e.story.Outcome = OutcomeGated
	default:
		e.story.Outcome = OutcomeUntried
	}
	if pod.Spec.NodeName != "" {
		e.story.Machine = e.existing(pod.Spec.NodeName, "")
	}
}

// planned looks the pod up in the plan. The plan holds a running pod only if the pod's node is leaving.
func (e *podExplainer) planned() bool {
	id := kube.PodID(e.pod)
	for i := range e.plan.Launches {
		if l := &e.plan.Launches[i]; slices.Contains(l.Pods, id) {
			e.story.Outcome = OutcomeLaunch
			e.launched(l)
			return true
		}
	}
	for _, p := range e.plan.Placements {
		if p.Pod == id {
			e.story.Outcome = OutcomePlacement
			e.story.Machine = e.existing(p.Node, p.Claim)
			return true
		}
	}
	for _, u := range e.plan.Unplaced {
		if u.Pod == id {
			e.story.Outcome = OutcomeRefused
			if slices.ContainsFunc(u.Reasons, isElsewhere) {
				e.story.Outcome = OutcomeElsewhere
			}
			e.story.Reasons = reasonRecords(u.Reasons)
			return true
		}
	}
	return false
}

func isElsewhere(r engine.Reason) bool {
	return r.Code == engine.ServedElsewhere || r.Code == engine.LaunchDelayed || r.Code == engine.LeftToFargate
}

// existing returns the record of a machine that exists, or of one that starts and has no node yet.
func (e *podExplainer) existing(name, claimName string) *MachineRecord {
	m := &MachineRecord{Claim: claimName}
	var labels map[string]string
	var allocatable corev1.ResourceList
	for _, n := range e.s.Nodes {
		if n.Name == name {
			m.Node, labels, allocatable = name, n.Labels, n.Status.Allocatable
		}
	}
	var class *v1.NodeClassReference
	for _, c := range e.s.NodeClaims {
		if c.Name != m.Claim && (m.Node == "" || c.Status.NodeName != m.Node) {
			continue
		}
		m.Claim, class = c.Name, c.Spec.NodeClassRef
		if m.Node == "" {
			labels, allocatable = c.Labels, c.Status.Allocatable
		}
	}
	if m.Node == "" && m.Claim == "" {
		m.Node = name // the node is not in the snapshot
	}
	m.describe(labels, e.prices, class)
	m.Share, m.ShareOf = largestShare(kube.PodRequests(e.pod), allocatable)
	return m
}

// describe fills in the record from the machine's labels.
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

// summary returns the story as one sentence.
func (e *podExplainer) summary() string {
	pod, m := e.pod, e.story.Machine
	switch e.story.Outcome {
	case OutcomeEnded:
		return fmt.Sprintf("it has run to its end (%s) and needs no node", pod.Status.Phase)
	case OutcomeEnding:
		return "it has been told to stop and needs no other node"
	case OutcomeRunning:
		text := "it runs on node " + m.Node + e.group(m)
		if kube.OwnedByDaemonSet(pod) {
			text += ", where its DaemonSet wants it; such pods start no machines and keep none"
		}
		if r := e.story.Resize; r != nil {
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
		if g := gang.Read(e.s).Of(pod); g != nil && !g.Suffices(len(g.Waiting)) {
			return "it waits: " + g.TooSmall().Message()
		}
		return untried(pod)
	case OutcomeElsewhere:
		return "it waits: " + engine.Sentence(e.reasons())
	case OutcomePlacement:
		return e.placed(m)
	case OutcomeLaunch:
		return e.leaves() + "a machine has to be started for it: " + e.story.Launch.sentence
	}
	return e.leaves() + "nothing can run it: " + engine.Sentence(e.reasons()) + e.admittedBy()
}

// group describes the group of the node, if the node belongs to no NodePool and is in the snapshot.
func (e *podExplainer) group(m *MachineRecord) string {
	i := slices.IndexFunc(e.s.Nodes, func(n *corev1.Node) bool { return n.Name == m.Node })
	if m.Claim != "" || m.NodePool != "" || i < 0 {
		return ""
	}
	return foreign(e.s.Nodes[i])
}

// admittedBy names the groups of nodes without a NodePool whose labels and taints admit the pod.
func (e *podExplainer) admittedBy() string {
	var names []string
	for _, g := range OtherGroups(e.s) {
		if g.Admits(e.pod) {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	e.story.OtherGroups = names
	return "; " + OtherGroupsSentence(names)
}

func (e *podExplainer) reasons() []engine.Reason {
	var out []engine.Reason
	for _, r := range e.story.Reasons {
		out = append(out, r.Reason())
	}
	return out
}

// leaves returns the beginning of the sentence about a running pod whose node is leaving. It returns "" for other pods.
func (e *podExplainer) leaves() string {
	if e.story.From == "" {
		return ""
	}
	return "its node " + e.story.From + " is leaving, and "
}

func (e *podExplainer) placed(m *MachineRecord) string {
	switch {
	case m.Node == "":
		return e.leaves() + "the machine of NodeClaim " + m.Claim + ", which has been asked for, has room for it"
	case e.pod.Status.NominatedNodeName == m.Node:
		return "it is nominated to node " + m.Node
	}
	return e.leaves() + "node " + m.Node + " has room for it; kube-scheduler is to bind it there"
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
