package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// A disruption with replacements takes minutes, so what is intended is written on the objects themselves: a new process
// finds there what the last one began.
const (
	// DisruptionAnnotation, on the claim of a node that is to go, holds a Mark. It is the first thing that is written when a
	// disruption with replacements begins, and the last that is removed when it is taken back.
	DisruptionAnnotation = v1.DisruptionAnnotationKey
	// ReplacesAnnotation, on the claim of a replacement, holds a Replaces. It is there from the claim's creation.
	ReplacesAnnotation = v1.ReplacesAnnotationKey
)

// Mark says of a claim that it goes once its replacements are ready.
type Mark struct {
	// ID is the same on all claims that go together.
	ID      string              `json:"id"`
	Reason  v1.DisruptionReason `json:"reason"`
	Decided time.Time           `json:"decided"`
	// Claims and Replacements are names of NodeClaims, those that go and those that come.
	Claims       []string `json:"claims"`
	Replacements []string `json:"replacements"`
	// DrainWithin is how long the drains may take; nil leaves it to the claims.
	DrainWithin *metav1.Duration `json:"drainWithin,omitempty"`
}

// Replaces says of a claim whom its machine was started to replace.
type Replaces struct {
	ID     string   `json:"id"`
	Claims []string `json:"claims"`
}

// NewMark is what to write on the claims of a disruption with replacements that is decided now. The replacements' names
// follow from the claims and the time, so that carrying the same decision out twice creates nothing twice.
func NewMark(d Disruption, claims []*v1.NodeClaim, now time.Time) Mark {
	now = now.UTC()
	m := Mark{Reason: d.Reason, Decided: now, Claims: slices.Sorted(slices.Values(d.Claims))}
	if d.DrainWithin != nil {
		m.DrainWithin = &metav1.Duration{Duration: *d.DrainWithin}
	}
	uids := make([]string, 0, len(claims))
	for _, c := range claims {
		uids = append(uids, string(c.UID))
	}
	slices.Sort(uids)
	m.ID = digest(append(uids, now.Format(time.RFC3339Nano))...)
	for i, l := range d.Replacements {
		m.Replacements = append(m.Replacements, derivedName(l.NodePool, m.ID, fmt.Sprint(i)))
	}
	return m
}

// digest is a short fingerprint of texts.
func digest(texts ...string) string {
	sum := fnv.New64a()
	for _, t := range texts {
		sum.Write([]byte(t))
		sum.Write([]byte{0})
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

// longestPoolPart keeps the names of claims within what a label value may hold: nodes are often called like their claim.
const longestPoolPart = 50

// derivedName is the name of a claim of the pool that follows from the texts.
func derivedName(pool string, from ...string) string {
	if len(pool) > longestPoolPart {
		pool = strings.TrimRight(pool[:longestPoolPart], ".-")
	}
	return pool + "-" + digest(append([]string{pool}, from...)...)[:10]
}

// String is the mark as it is written in DisruptionAnnotation.
func (m Mark) String() string { return asJSON(m) }

// Replaces is what the replacements of the mark carry.
func (m Mark) Replaces() Replaces { return Replaces{ID: m.ID, Claims: m.Claims} }

// String is r as it is written in ReplacesAnnotation.
func (r Replaces) String() string { return asJSON(r) }

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written as JSON: %v", v, err)) // it holds nothing that could fail
	}
	return string(text)
}

// MarkOf reads the claim's mark; ok is false if it has none. One that cannot be read has no ID.
func MarkOf(claim *v1.NodeClaim) (m Mark, ok bool) {
	text, ok := claim.Annotations[DisruptionAnnotation]
	if !ok {
		return m, false
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.ID == "" || len(m.Replacements) == 0 || !slices.Contains(m.Claims, claim.Name) {
		return Mark{}, true
	}
	return m, true
}

func replacesOf(claim *v1.NodeClaim) (r Replaces, ok bool) {
	text, ok := claim.Annotations[ReplacesAnnotation]
	if !ok || json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
		return Replaces{}, false
	}
	return r, true
}

// IsReplacement reports whether the claim was created for the disruption with that ID.
func IsReplacement(claim *v1.NodeClaim, id string) bool {
	r, ok := replacesOf(claim)
	return ok && r.ID == id
}

// orders are the disruptions with replacements that are in progress.
type orders struct {
	s      *Snapshot
	guards *guards // nil until they are asked for
	claims map[string]*v1.NodeClaim
	nodes  map[string]*corev1.Node // by provider ID; the first by name
	pools  map[string]*v1.NodePool
	list   []*order // the oldest first
	// replacing holds the claims that orders wait for or will need, by name.
	replacing map[string]*order
}

// order is one of them.
type order struct {
	Mark
	// leaving are the claims that are still there and have not been told to go, in order of name.
	leaving []*v1.NodeClaim
}

// ordersOf collects the orders of a snapshot.
func ordersOf(s *Snapshot) *orders {
	o := &orders{s: s, claims: map[string]*v1.NodeClaim{}, replacing: map[string]*order{}}
	if !slices.ContainsFunc(s.NodeClaims, hasPart) {
		return o
	}
	for _, c := range s.NodeClaims {
		o.claims[c.Name] = c
	}
	if o.list = inProgress(s); len(o.list) == 0 {
		return o
	}
	for _, x := range o.list {
		for _, name := range x.Replacements {
			o.replacing[name] = x
		}
	}
	o.find()
	return o
}

// inProgress lists the disruptions with replacements that the claims are marked for, the oldest first.
func inProgress(s *Snapshot) []*order {
	var list []*order
	byID := map[string]*order{}
	for _, c := range s.NodeClaims {
		m, marked := MarkOf(c)
		if !marked || c.DeletionTimestamp != nil {
			continue
		}
		if m.ID == "" {
			m = Mark{ID: "unreadable " + c.Name, Claims: []string{c.Name}}
		}
		if byID[m.ID] == nil {
			byID[m.ID] = &order{Mark: m}
			list = append(list, byID[m.ID])
		}
		byID[m.ID].leaving = append(byID[m.ID].leaving, c)
	}
	slices.SortFunc(list, func(a, b *order) int { return cmp.Or(a.Decided.Compare(b.Decided), cmp.Compare(a.ID, b.ID)) })
	for _, x := range list {
		slices.SortFunc(x.leaving, func(a, b *v1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list
}

// hasPart reports whether the claim has, or had, a part in an order.
func hasPart(c *v1.NodeClaim) bool {
	_, goes := c.Annotations[DisruptionAnnotation]
	_, comes := c.Annotations[ReplacesAnnotation]
	return goes || comes
}

// find finds nodes and pools.
func (o *orders) find() {
	o.nodes, o.pools = map[string]*corev1.Node{}, poolsByName(o.s)
	for _, n := range o.s.Nodes {
		id := n.Spec.ProviderID
		if other := o.nodes[id]; id != "" && (other == nil || n.Name < other.Name) {
			o.nodes[id] = n
		}
	}
}

func (o *orders) nodeOf(claim *v1.NodeClaim) *corev1.Node { return o.nodes[claim.Status.ProviderID] }

// orderRefusal says why a machine that has a part in an order is not disrupted for another reason, the zero Reason if it
// has none.
func (h *host) orderRefusal() Reason {
	switch {
	case h.ordered:
		return Reason{Code: BeingReplaced, NodePool: h.pool()}
	case h.replaces:
		return Reason{Code: Replacing, NodePool: h.pool()}
	}
	return Reason{}
}

// promise keeps room on replacements for the pods that are planned on them and still run on the nodes that go.
func (p *problem) promise() {
	byPlan := map[string]*host{}
	for _, h := range p.hosts {
		if h.replaces && !h.leaving {
			for _, uid := range h.planned {
				byPlan[uid] = h
			}
		}
	}
	if len(byPlan) == 0 {
		return
	}
	for _, h := range p.hosts {
		if !h.ordered || h.leaving {
			continue
		}
		for _, pod := range h.bound {
			if to := byPlan[string(pod.UID)]; to != nil && IsReschedulable(pod) {
				to.promised = append(to.promised, pod)
			}
		}
	}
}
