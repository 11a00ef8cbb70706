package explain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// NodeExplanation is the record of a node: its machine, its pods, and why it stays or goes.
type NodeExplanation struct {
	Summary string `json:"summary"`
	MachineRecord
	Created  metav1.Time `json:"created"`
	Ready    bool        `json:"ready"`
	Cordoned bool        `json:"cordoned,omitempty"`
	// Leaving says that the node or its claim is being deleted.
	Leaving    bool              `json:"leaving,omitempty"`
	Conditions []ConditionRecord `json:"conditions"`
	Resources  []ResourceUse     `json:"resources"`
	Pods       []NodePodRecord   `json:"pods"`
	// Expected are pods that the plan puts on the node and that do not run there yet.
	Expected []string `json:"expected"`
	// Kept is why the node stays; if the node goes, Disruption is set instead.
	Kept       *engine.ReasonRecord `json:"kept,omitempty"`
	Disruption *DisruptionRecord    `json:"disruption,omitempty"`

	ExpectedIDs []engine.PodID `json:"-"`
	Age         time.Duration  `json:"-"`
}

// NodePodRecord is a pod that runs on the node.
type NodePodRecord struct {
	Pod       string `json:"pod"`
	DaemonSet bool   `json:"daemonSet,omitempty"`
	// Share is the largest share of any resource of the node that the pod asks for, ShareOf that resource.
	Share   float64             `json:"share"`
	ShareOf corev1.ResourceName `json:"shareOf,omitempty"`
}

// DisruptionRecord holds the reason why the node goes, and the effects of its removal.
type DisruptionRecord struct {
	Reason        v1.DisruptionReason `json:"reason"`
	Nodes         []string            `json:"nodes"`
	SavingPerHour float64             `json:"savingPerHour"`
	Pods          []string            `json:"pods"`
	Replacements  []string            `json:"replacements"`
	// HeldPods are protected until HeldUntil, when the node's deadline ends them; their new machines start shortly before.
	HeldPods  []string  `json:"heldPods,omitempty"`
	HeldUntil time.Time `json:"heldUntil,omitzero"`
}

// ExplainNode returns the record of the node with the name, or of the claim with the name; ok is false if there is neither. The plan is the
// result of provisioning.Plan for the snapshot, disrupt that of disruption.Plan.
func ExplainNode(s *engine.Snapshot, plan, disrupt *engine.Plan, name string) (story NodeExplanation, ok bool) {
	node, claim := nodeAndClaim(s, name)
	if node == nil && claim == nil {
		return story, false
	}
	story = NodeExplanation{Conditions: []ConditionRecord{}, Resources: []ResourceUse{}, Pods: []NodePodRecord{}, Expected: []string{}}
	story.Leaving = inventory.IsLeaving(node, claim)
	var labels map[string]string
	var class *v1.NodeClassReference
	var allocatable corev1.ResourceList
	if claim != nil {
		story.Claim, class, labels = claim.Name, claim.Spec.NodeClassRef, claim.Labels
		story.Created, story.Conditions = claim.CreationTimestamp, conditionRecords(claim.Status.Conditions)
		allocatable = claim.Status.Allocatable
	}
	if node != nil {
		story.Node, labels, story.Created, allocatable = node.Name, node.Labels, node.CreationTimestamp, node.Status.Allocatable
		story.Ready, story.Cordoned = kube.NodeReady(node), node.Spec.Unschedulable
	}
	story.Age = max(0, s.Now.Sub(story.Created.Time))
	story.describe(labels, inventory.NewPriceBook(s), class)
	story.addPods(s, allocatable)
	for _, p := range plan.Placements {
		if p.Node == name || p.Claim != "" && p.Claim == story.Claim {
			story.ExpectedIDs = append(story.ExpectedIDs, p.Pod)
		}
	}
	story.Expected = podTexts(story.ExpectedIDs)
	story.judge(node, disrupt)
	if ends := kube.DrainEnds(claim); story.Leaving && !ends.IsZero() {
		story.Summary += ", and the pods that are left are deleted at its deadline, " + engine.ClockText(ends)
	}
	return story, true
}

// nodeAndClaim finds a node by its name or by its claim's name, and a claim without a node by the claim's name.
func nodeAndClaim(s *engine.Snapshot, name string) (node *corev1.Node, claim *v1.NodeClaim) {
	for _, n := range s.Nodes {
		if n.Name == name {
			node = n
		}
	}
	for _, c := range kube.ByName(s.NodeClaims) {
		ofNode := node != nil && node.Spec.ProviderID != "" && c.Status.ProviderID == node.Spec.ProviderID
		if claim == nil && (ofNode || node == nil && c.Name == name) {
			claim = c
		}
	}
	if node == nil && claim != nil && claim.Status.ProviderID != "" {
		for _, n := range kube.ByName(s.Nodes) {
			if node == nil && n.Spec.ProviderID == claim.Status.ProviderID {
				node = n
			}
		}
	}
	return node, claim
}

// addPods lists the pods on the node and sums up their requests.
func (n *NodeExplanation) addPods(s *engine.Snapshot, allocatable corev1.ResourceList) {
	used := corev1.ResourceList{}
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		if n.Node != "" && pod.Spec.NodeName == n.Node && !kube.IsTerminal(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(kube.PodID(a).String(), kube.PodID(b).String()) })
	for _, pod := range pods {
		requests := kube.PodRequests(pod)
		kube.AddList(used, requests)
		r := NodePodRecord{Pod: kube.PodID(pod).String(), DaemonSet: kube.OwnedByDaemonSet(pod)}
		r.Share, r.ShareOf = largestShare(requests, allocatable)
		n.Pods = append(n.Pods, r)
	}
	n.Share, n.ShareOf = largestShare(used, allocatable)
	n.Resources = useOf(used, allocatable, worthShowing(used, allocatable))
}

// worthShowing returns CPU, memory, pods and the node's other resources; ephemeral storage only if pods request it.
func worthShowing(used, allocatable corev1.ResourceList) []corev1.ResourceName {
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
	for _, list := range []corev1.ResourceList{used, allocatable} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			q, u := list[name], used[name]
			plain := name == corev1.ResourceEphemeralStorage && u.IsZero()
			if !slices.Contains(names, name) && q.Sign() > 0 && !plain {
				names = append(names, name)
			}
		}
	}
	return names
}

// judge records whether the disruption plan removes or keeps the node.
func (n *NodeExplanation) judge(node *corev1.Node, disrupt *engine.Plan) {
	for i := range disrupt.Disruptions {
		d := &disrupt.Disruptions[i]
		if n.Node == "" || !slices.Contains(d.Nodes, n.Node) {
			continue
		}
		r := disruptionRecord(d)
		n.Disruption, n.Summary = &r, "it would be removed: "+d.Sentence()
		return
	}
	reason := NotManaged(node)
	for _, k := range disrupt.Kept {
		if n.Node != "" && k.Node == n.Node || k.Claim != "" && k.Claim == n.Claim {
			reason = k.Reason
		}
	}
	record := reason.Record()
	n.Kept, n.Summary = &record, "it stays: "+reason.Message()
	if reason.Code == engine.AlreadyLeaving {
		n.Summary = "it is being removed already"
	}
}

func disruptionRecord(d *engine.Disruption) DisruptionRecord {
	r := DisruptionRecord{Reason: d.Reason, Nodes: d.Nodes, SavingPerHour: d.SavingPerHour, Pods: podTexts(d.Pods), Replacements: []string{}, HeldUntil: d.HeldUntil}
	if len(d.Held) > 0 {
		r.HeldPods = podTexts(d.Held)
	}
	for i := range d.Replacements {
		r.Replacements = append(r.Replacements, d.Replacements[i].Sentence())
	}
	return r
}
