package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// A disruption with replacements takes minutes. Tenon therefore writes it on the objects themselves, where a new process finds it.
const (
	// DisruptionAnnotation, on the claim of a node to be removed, holds a Mark. It is the first thing that is written when a disruption with
	// replacements begins, and the last that is removed when it is taken back.
	DisruptionAnnotation = v1.DisruptionAnnotationKey
	// ReplacesAnnotation, on the claim of a replacement, holds a Replaces. The annotation is there from the claim's creation.
	ReplacesAnnotation = v1.ReplacesAnnotationKey
)

// Mark, on a claim, means that the claim is deleted once its replacements are ready.
type Mark struct {
	// ID is the same on all claims that are deleted together.
	ID      string              `json:"id"`
	Reason  v1.DisruptionReason `json:"reason"`
	Decided time.Time           `json:"decided"`
	// Claims are the names of the NodeClaims to delete, Replacements the names of those that replace them.
	Claims       []string `json:"claims"`
	Replacements []string `json:"replacements"`
	// DrainWithin is how long the drains may take; nil leaves it to the claims.
	DrainWithin *metav1.Duration `json:"drainWithin,omitempty"`
}

// Replaces, on a claim, names the claims that its machine replaces.
type Replaces struct {
	ID     string   `json:"id"`
	Claims []string `json:"claims"`
}

// NewMark returns the mark for the claims of a disruption with replacements that is decided now. The replacements' names follow from the
// claims and the time: if the same decision is carried out twice, nothing is created twice.
func NewMark(d engine.Disruption, claims []*v1.NodeClaim, now time.Time) Mark {
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
		m.Replacements = append(m.Replacements, DerivedName(l.NodePool, m.ID, fmt.Sprint(i)))
	}
	return m
}

// digest returns a short fingerprint of texts.
func digest(texts ...string) string {
	sum := fnv.New64a()
	for _, t := range texts {
		sum.Write([]byte(t))
		sum.Write([]byte{0})
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

// longestPoolPart keeps the names of claims short enough for a label value, because nodes often have the name of their claim.
const longestPoolPart = 50

// DerivedName returns the name of a claim of the pool that follows from the texts.
func DerivedName(pool string, from ...string) string {
	if len(pool) > longestPoolPart {
		pool = strings.TrimRight(pool[:longestPoolPart], ".-")
	}
	return pool + "-" + digest(append([]string{pool}, from...)...)[:10]
}

// String returns the mark as text for DisruptionAnnotation.
func (m Mark) String() string { return AsJSON(m) }

// Replaces returns the Replaces for the replacements of the mark.
func (m Mark) Replaces() Replaces { return Replaces{ID: m.ID, Claims: m.Claims} }

// String returns r as text for ReplacesAnnotation.
func (r Replaces) String() string { return AsJSON(r) }

func AsJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written as JSON: %v", v, err)) // it holds nothing that could fail
	}
	return string(text)
}

// MarkOf reads the claim's mark; ok is false if it has none. An unreadable mark has no ID.
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

func ReplacesOf(claim *v1.NodeClaim) (r Replaces, ok bool) {
	text, ok := claim.Annotations[ReplacesAnnotation]
	if !ok || json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
		return Replaces{}, false
	}
	return r, true
}

// IsReplacement reports whether the claim was created for the disruption with that ID.
func IsReplacement(claim *v1.NodeClaim, id string) bool {
	r, ok := ReplacesOf(claim)
	return ok && r.ID == id
}

// InProgress is a disruption with replacements that is in progress.
type InProgress struct {
	Mark
	// Leaving are the claims that still exist and are not being deleted, in order of name.
	Leaving []*v1.NodeClaim
}

// DisruptionsInProgress lists the disruptions with replacements that the claims are marked for, the oldest first.
func DisruptionsInProgress(s *engine.Snapshot) []*InProgress {
	var list []*InProgress
	byID := map[string]*InProgress{}
	for _, c := range s.NodeClaims {
		m, marked := MarkOf(c)
		if !marked || c.DeletionTimestamp != nil {
			continue
		}
		if m.ID == "" {
			m = Mark{ID: "unreadable " + c.Name, Claims: []string{c.Name}}
		}
		if byID[m.ID] == nil {
			byID[m.ID] = &InProgress{Mark: m}
			list = append(list, byID[m.ID])
		}
		byID[m.ID].Leaving = append(byID[m.ID].Leaving, c)
	}
	slices.SortFunc(list, func(a, b *InProgress) int { return cmp.Or(a.Decided.Compare(b.Decided), cmp.Compare(a.ID, b.ID)) })
	for _, x := range list {
		slices.SortFunc(x.Leaving, func(a, b *v1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	}
	return list
}

// HasPartInDisruption reports whether the claim has, or had, a part in a disruption with replacements.
func HasPartInDisruption(c *v1.NodeClaim) bool {
	_, goes := c.Annotations[DisruptionAnnotation]
	_, comes := c.Annotations[ReplacesAnnotation]
	return goes || comes
}

// OrderRefusal returns why a machine with a part in a disruption in progress is not disrupted for another reason, the zero Reason if it has none.
func (m *Machine) OrderRefusal() engine.Reason {
	switch {
	case m.Ordered:
		return engine.Reason{Code: engine.BeingReplaced, NodePool: m.Pool()}
	case m.Replaces:
		return engine.Reason{Code: engine.Replacing, NodePool: m.Pool()}
	}
	return engine.Reason{}
}
