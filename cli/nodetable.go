package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// nodeTable lists the nodes of a cluster and their totals.
type nodeTable struct {
	PricePerHour float64 `json:"pricePerHour"`
	// Unpriced is the number of nodes of unknown price. Waiting is the number of pods that no node runs yet.
	Unpriced int             `json:"unpriced"`
	Waiting  int             `json:"waiting"`
	CPU      dashboard.Share `json:"cpu"`
	Memory   dashboard.Share `json:"memory"`
	Nodes    []nodeRow       `json:"nodes"`
}

// nodeRow is one node, or one machine without a node.
type nodeRow struct {
	Node         string          `json:"node"`
	Claim        string          `json:"claim,omitempty"`
	NodePool     string          `json:"nodePool,omitempty"`
	InstanceType string          `json:"instanceType,omitempty"`
	Zone         string          `json:"zone,omitempty"`
	CapacityType string          `json:"capacityType,omitempty"`
	PricePerHour *float64        `json:"pricePerHour"`
	Created      metav1.Time     `json:"created"`
	State        string          `json:"state"`
	CPU          dashboard.Share `json:"cpu"`
	Memory       dashboard.Share `json:"memory"`
	Pods         int             `json:"pods"`
	// Kept is the reason why the node is kept, Disruption the reason why it is removed.
	Kept       *engine.ReasonRecord `json:"kept,omitempty"`
	Disruption string               `json:"disruption,omitempty"`

	age time.Duration // 0 if the time of its creation is unknown
}

// newNodeTable lists the nodes of the snapshot. plan is the result of disruption.Plan for it.
func newNodeTable(s *engine.Snapshot, plan *engine.Plan) *nodeTable {
	t := &nodeTable{Nodes: []nodeRow{}}
	claims := map[string]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		if c.Status.ProviderID != "" {
			claims[c.Status.ProviderID] = c
		}
	}
	prices, joined := inventory.NewPriceBook(s), map[string]bool{}
	for _, n := range s.Nodes {
		claim := claims[n.Spec.ProviderID]
		row := nodeRow{Node: n.Name, Created: n.CreationTimestamp, State: nodeState(n, claim)}
		row.CPU.Allocatable, row.Memory.Allocatable = amountOf(n.Status.Allocatable, corev1.ResourceCPU), amountOf(n.Status.Allocatable, corev1.ResourceMemory)
		row.describe(n.Labels, claim, prices)
		if claim != nil {
			joined[claim.Name] = true
		}
		t.Nodes = append(t.Nodes, row)
	}
	for _, c := range s.NodeClaims {
		if joined[c.Name] {
			continue
		}
		row := nodeRow{Node: c.Name, Created: c.CreationTimestamp, State: "starting"}
		switch {
		case c.DeletionTimestamp != nil:
			row.State = "leaving"
		case kube.HasJoined(c):
			row.State = "node gone"
		}
		row.CPU.Allocatable, row.Memory.Allocatable = amountOf(c.Status.Allocatable, corev1.ResourceCPU), amountOf(c.Status.Allocatable, corev1.ResourceMemory)
		row.describe(c.Labels, c, prices)
		t.Nodes = append(t.Nodes, row)
	}
	t.addPods(s)
	t.judge(s, plan)
	for i := range t.Nodes {
		row := &t.Nodes[i]
		if !row.Created.IsZero() {
			row.age = max(0, s.Now.Sub(row.Created.Time))
		}
		t.CPU.Requested, t.CPU.Allocatable = t.CPU.Requested+row.CPU.Requested, t.CPU.Allocatable+row.CPU.Allocatable
		t.Memory.Requested, t.Memory.Allocatable = t.Memory.Requested+row.Memory.Requested, t.Memory.Allocatable+row.Memory.Allocatable
		if row.PricePerHour == nil {
			t.Unpriced++
			continue
		}
		t.PricePerHour += *row.PricePerHour
	}
	return t
}

func amountOf(list corev1.ResourceList, name corev1.ResourceName) float64 {
	q := list[name]
	return q.AsApproximateFloat64()
}

// describe sets the fields that come from the machine's labels and claim.
func (r *nodeRow) describe(labels map[string]string, claim *v1.NodeClaim, prices *inventory.PriceBook) {
	var class *v1.NodeClassReference
	if claim != nil {
		r.Claim, class = claim.Name, claim.Spec.NodeClassRef
	}
	id := inventory.MachineOffering(labels)
	r.NodePool, r.InstanceType, r.Zone, r.CapacityType = labels[v1.NodePoolLabelKey], id.InstanceType, id.Zone, id.CapacityType
	if price, known := prices.Price(labels, class); known {
		r.PricePerHour = &price
	}
}

func nodeState(n *corev1.Node, claim *v1.NodeClaim) string {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case n.DeletionTimestamp != nil || claim != nil && claim.DeletionTimestamp != nil || kube.IsRemovedElsewhere(n):
		return "leaving"
	case !ready:
		return "not ready"
	case claim != nil && n.Labels[v1.InitializedLabelKey] != "true":
		return "starting"
	case n.Spec.Unschedulable:
		return "cordoned"
	}
	return "ready"
}

// addPods counts the pods on the nodes and adds up their requests.
func (t *nodeTable) addPods(s *engine.Snapshot) {
	index := map[string]*nodeRow{}
	for i := range t.Nodes {
		index[t.Nodes[i].Node] = &t.Nodes[i]
	}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "" {
			if kube.IsPending(pod) {
				t.Waiting++
			}
			continue
		}
		row := index[pod.Spec.NodeName]
		if row == nil || kube.IsTerminal(pod) {
			continue
		}
		requests := kube.PodRequests(pod)
		row.Pods++
		row.CPU.Requested += amountOf(requests, corev1.ResourceCPU)
		row.Memory.Requested += amountOf(requests, corev1.ResourceMemory)
	}
}

// judge sets, for each node, the reason why it is kept or removed.
func (t *nodeTable) judge(s *engine.Snapshot, plan *engine.Plan) {
	goes, kept := map[string]string{}, map[string]engine.Reason{}
	for i := range plan.Disruptions {
		for _, node := range plan.Disruptions[i].Nodes {
			goes[node] = plan.Disruptions[i].Sentence()
		}
	}
	for _, k := range plan.Kept {
		kept[cmp.Or(k.Node, k.Claim)] = k.Reason
	}
	nodes := make(map[string]*corev1.Node, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes[n.Name] = n
	}
	for i := range t.Nodes {
		row := &t.Nodes[i]
		if row.Disruption = goes[row.Node]; row.Disruption != "" {
			continue
		}
		reason, ok := kept[row.Node]
		if !ok {
			reason = explain.NotManaged(nodes[row.Node])
		}
		record := reason.Record()
		row.Kept = &record
	}
}

func nodeOrders() []string { return []string{"pool", "name", "price", "cpu", "memory", "age"} }

// order sorts the nodes. Nodes that are equal in this order are sorted by name.
func (t *nodeTable) order(by string) {
	price := func(r *nodeRow) float64 {
		if r.PricePerHour == nil {
			return 0
		}
		return *r.PricePerHour
	}
	slices.SortFunc(t.Nodes, func(a, b nodeRow) int {
		first := 0
		switch by {
		case "pool":
			first = cmp.Or(cmp.Compare(btoi(a.NodePool == ""), btoi(b.NodePool == "")), cmp.Compare(a.NodePool, b.NodePool))
		case "price":
			first = cmp.Compare(price(&b), price(&a))
		case "cpu":
			first = cmp.Compare(a.CPU.Of(), b.CPU.Of())
		case "memory":
			first = cmp.Compare(a.Memory.Of(), b.Memory.Of())
		case "age":
			first = cmp.Compare(b.age, a.age)
		}
		return cmp.Or(first, compareNames(a.Node, b.Node), cmp.Compare(a.Claim, b.Claim))
	})
}

// compareNames compares names so that web-2 comes before web-10.
func compareNames(a, b string) int {
	const digits = "0123456789"
	return cmp.Or(cmp.Compare(strings.TrimRight(a, digits), strings.TrimRight(b, digits)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lines returns the table's lines for people.
func (t *nodeTable) lines(screen *terminal) []string {
	head := fmt.Sprintf("%s, %s/h, $%.2f a month; %.0f %% of %s cores and %.0f %% of %s are requested",
		count(len(t.Nodes), "node"), engine.Dollars(t.PricePerHour), engine.HoursPerMonth*t.PricePerHour,
		100*t.CPU.Of(), numberWords(math.Round(t.CPU.Allocatable*10)/10), 100*t.Memory.Of(), gib(t.Memory.Allocatable))
	if t.Waiting > 0 {
		head += "; " + screen.paint(red, count(t.Waiting, "pod")+" waiting")
	}
	if t.Unpriced > 0 {
		head += fmt.Sprintf("; %s of unknown price", count(t.Unpriced, "node"))
	}
	lines := []string{head}
	if len(t.Nodes) == 0 {
		return lines
	}
	rows := t.rows(bar)
	if screen.columns > 0 && leastWidth(rows) > screen.columns {
		rows = t.rows(shareWords)
	}
	return append(append(lines, ""), table(screen, "", fit(rows, screen.columns))...)
}

// rows returns the table's header and its nodes. The function share formats shares.
func (t *nodeTable) rows(share func(float64) string) [][]string {
	rows := [][]string{{"NODE", "POOL", "MACHINE", "CPU", "MEMORY", "PODS", "USD/HOUR", "AGE", "STATE", "BECAUSE"}}
	for i := range t.Nodes {
		r := &t.Nodes[i]
		price := "-"
		if r.PricePerHour != nil {
			price = money(*r.PricePerHour)
		}
		because := r.Disruption
		if r.Kept != nil {
			because = fmt.Sprintf("%s [%s]", r.Kept.Message, r.Kept.Code)
		}
		machine := "-"
		if r.InstanceType != "" {
			machine = strings.Join(strings.Fields(r.InstanceType+" "+r.Zone+" "+r.CapacityType), " ")
		}
		rows = append(rows, []string{r.Node, orDash(r.NodePool), machine, share(r.CPU.Of()), share(r.Memory.Of()), fmt.Sprint(r.Pods),
			price, ageSince(r.Created, r.age), r.state(), because})
	}
	return rows
}

func (r *nodeRow) state() string {
	if r.Disruption != "" {
		return "goes"
	}
	return r.State
}

func gib(bytes float64) string {
	return fmt.Sprintf("%s GiB", numberWords(math.Round(bytes/(1<<30)*10)/10))
}

func shareWords(of float64) string { return fmt.Sprintf("%.0f %%", 100*of) }

// bar draws a share as ten blocks and a number.
func bar(of float64) string {
	full := min(max(int(math.Round(10*of)), 0), 10)
	return strings.Repeat("█", full) + strings.Repeat("░", 10-full) + fmt.Sprintf(" %3.0f %%", 100*of)
}
