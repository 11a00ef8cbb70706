package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/replacement"
)

// This file reads the words of statements about disruption that are not fields of the kinds.

const poolAnnotationWords = "pause= pause-reason= retire drift= time-zone= replace-budget= delete-budget= payback= price-patience= min-memory-for-pods= halted="

// annotationWord reads the words for a pool's annotations.
func (b *builder) annotationWord(p *v1.NodePool, w word) (handled bool, err error) {
	key, value := w.cut()
	switch key {
	case "pause":
		addLabel(&p.Annotations, v1.PauseAnnotationKey, value)
	case "pause-reason":
		addLabel(&p.Annotations, v1.PauseReasonAnnotationKey, value)
	case "retire":
		if !w.hasValue() {
			value = "true"
		}
		addLabel(&p.Annotations, v1.RetireAnnotationKey, value)
	case "drift":
		addLabel(&p.Annotations, v1.DriftAnnotationKey, value)
	case "time-zone":
		addLabel(&p.Annotations, v1.BudgetTimeZoneAnnotationKey, value)
	case "replace-budget":
		return true, addBudget(w, &p.Annotations, v1.ReplaceBudgetsAnnotationKey)
	case "delete-budget":
		return true, addBudget(w, &p.Annotations, v1.DeleteBudgetsAnnotationKey)
	case "payback":
		addLabel(&p.Annotations, v1.PaybackAnnotationKey, value)
	case "price-patience":
		addLabel(&p.Annotations, v1.PricePatienceAnnotationKey, value)
	case "min-memory-for-pods":
		addLabel(&p.Annotations, v1.MinMemoryAnnotationKey, value)
	case "halted":
		v1.SetCondition(p, v1.ConditionNodeRegistrationHealthy, metav1.ConditionFalse, "", value, b.snapshot.Now)
	default:
		return false, nil
	}
	return true, nil
}

// addBudget reads a budget and adds it to the budgets in an annotation.
func addBudget(w word, to *map[string]string, key string) error {
	budget, err := w.budget()
	if err != nil {
		return err
	}
	if _, value, _ := strings.Cut(w.text, "="); !strings.HasPrefix(value, "(") {
		addLabel(to, key, budget.Nodes)
		return nil
	}
	var budgets []v1.Budget
	_ = json.Unmarshal([]byte((*to)[key]), &budgets) // a value that is no list is replaced
	text, err := json.Marshal(append(budgets, budget))
	addLabel(to, key, string(text))
	return err
}

// disruptionWord reads the words about a machine's faults and about begun disruptions.
func (m *machineLine) disruptionWord(w word) (handled bool, err error) {
	key, value := w.cut()
	switch key {
	case "drifted":
		m.drifted = true
		if w.hasValue() {
			m.driftedFor, err = w.duration()
		}
	case "backoff":
		m.backoff, err = w.duration()
	case "taken-back":
		m.takenBack, m.takenBackFor, err = w.takenBack()
	case "broken":
		c, err := w.nodeCondition("broken")
		m.broken = append(m.broken, c)
		return true, err
	case "rebooting":
		m.rebooting = true
	case "image":
		m.image = value
	default:
		return false, nil
	}
	return true, err
}

// brokenCondition is a condition of a node with its age.
type brokenCondition struct {
	corev1.NodeCondition
	age time.Duration
}

// nodeCondition reads broken=(Ready False for=40m reason=KubeletStopped).
func (w word) nodeCondition(of string) (c brokenCondition, err error) {
	r, err := w.group(of)
	if err != nil {
		return c, err
	}
	for at := 0; r.more(); at++ {
		w := r.next()
		key, value := w.cut()
		switch {
		case key == "for":
			if c.age, err = w.duration(); err != nil {
				return c, err
			}
		case key == "reason":
			c.Reason = value
		case at == 0:
			c.Type = corev1.NodeConditionType(w.text)
		case at == 1:
			c.Status = corev1.ConditionStatus(w.text)
		default:
			return c, r.unknown(w, "a type, a status, for= and reason=")
		}
	}
	return c, nil
}

// takenBack reads taken-back=1m,Drifted: the time for which the machine is still left alone, and the reason of the cancelled disruption.
func (w word) takenBack() (left time.Duration, reason v1.DisruptionReason, err error) {
	_, value := w.cut()
	text, why, ok := strings.Cut(value, ",")
	left, err = time.ParseDuration(text)
	if err != nil || !ok {
		return 0, "", w.errorf("%q is not a duration and a reason, as in taken-back=1m,Drifted", value)
	}
	return left, v1.DisruptionReason(why), nil
}

// mark writes the statement's words about disruption to claim and node.
func (m *machineLine) mark(claim *v1.NodeClaim, node *corev1.Node, now time.Time) {
	if m.backoff > 0 {
		addLabel(&claim.Annotations, v1.DisruptionBackoffAnnotationKey, replacement.Failure{Count: 1, Last: now.Add(m.backoff - time.Minute).UTC(), Why: "it was never ready"}.Text())
	}
	if m.takenBack > 0 {
		addLabel(&claim.Annotations, v1.DisruptionBackoffAnnotationKey, replacement.Failure{
			Count: 1, Last: now.Add(m.takenBack - time.Minute).UTC(), Why: "pod default/x would have no place to run", Alone: true, Reason: m.takenBackFor,
		}.Text())
	}
	if m.drifted {
		v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, lifecycle.PoolDrifted, "", now.Add(-m.driftedFor))
	}
	if m.rebooting {
		v1.SetCondition(claim, v1.ConditionRebooting, metav1.ConditionTrue, "RebootRequested", "", now)
	}
	claim.Status.ImageID = m.image
	if m.draining {
		v1.SetCondition(claim, v1.ConditionDrained, metav1.ConditionUnknown, "Draining", "", now.Add(-m.deletedFor))
	}
	for _, c := range m.conditions {
		v1.SetCondition(claim, string(c.Type), metav1.ConditionStatus(c.Status), c.Reason, "", now.Add(-c.age))
	}
	if node == nil {
		return
	}
	for _, c := range m.broken {
		c.LastTransitionTime = metav1.NewTime(now.Add(-c.age))
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
		node.Status.Conditions = append(node.Status.Conditions, c.NodeCondition)
	}
}

// classWord reads the words of a class.
func (w word) classWord(c *engine.Class, r *reader) error {
	key, value := w.cut()
	switch key {
	case "problem":
		c.Problem = value
	case "repair":
		p, err := w.repairPolicy()
		c.Repairs = append(c.Repairs, p)
		return err
	case "trait":
		t, err := w.trait()
		c.Traits = append(c.Traits, t)
		return err
	case "tended":
		c.Tended = splitList(value)
	default:
		return r.unknown(w, "problem= repair= tended= trait=")
	}
	return nil
}

// repairPolicy reads repair=(Ready False after=30m reason=Kernel grace=5m priority=50).
func (w word) repairPolicy() (p engine.RepairPolicy, err error) {
	r, err := w.group("repair")
	if err != nil {
		return p, err
	}
	for at := 0; r.more() && err == nil; at++ {
		w := r.next()
		key, value := w.cut()
		switch {
		case key == "after":
			p.Toleration, err = w.duration()
		case key == "reason":
			p.Reason = value
		case key == "grace":
			p.Grace, err = w.duration()
		case key == "priority":
			p.Priority, err = w.number()
		case at == 0:
			p.Condition = w.text
		case at == 1:
			p.Status = w.text
		default:
			err = r.unknown(w, "a type, a status, after= reason= grace= priority=")
		}
	}
	return p, err
}

// trait reads trait=(imageID ami-1,ami-2 types=small,large replacing=ami-1 reason=ImageDrift observed).
func (w word) trait() (t engine.Trait, err error) {
	r, err := w.group("trait")
	if err != nil {
		return t, err
	}
	for at := 0; r.more(); at++ {
		w := r.next()
		key, value := w.cut()
		switch {
		case key == "reason" && w.hasValue():
			t.Reason = value
		case key == "replacing" && w.hasValue():
			t.Replacing = splitList(value)
		case key == "types" && w.hasValue():
			t.Types = slices.Sorted(slices.Values(splitList(value)))
		case at > 1 && w.text == "observed":
			t.Observed = true
		case at == 0:
			t.Key = w.text
		case at == 1:
			t.Accepts = splitList(w.text)
		default:
			return t, r.unknown(w, "a key, its values, types=, replacing=, reason= and observed")
		}
	}
	return t, nil
}

// lookForDrift marks drifted claims, like their controller, and returns the reasons.
func lookForDrift(s *engine.Snapshot) string {
	var out strings.Builder
	for i, claim := range s.NodeClaims {
		pool := poolNamed(s, claim.Labels[v1.NodePoolLabelKey])
		if pool == nil {
			continue
		}
		reason, message := lifecycle.DriftOf(claim, pool, classOf(s, claim.Spec.NodeClassRef), s.Now)
		claim = claim.DeepCopy()
		if reason == "" {
			v1.RemoveCondition(claim, v1.ConditionDrifted, s.Now)
		} else {
			v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, reason, message, s.Now)
			fmt.Fprintf(&out, "drifted %s: %s: %s\n", claim.Name, reason, message)
		}
		s.NodeClaims[i] = claim
	}
	if out.Len() == 0 {
		return "nothing has drifted\n"
	}
	return out.String()
}

func classOf(s *engine.Snapshot, ref *v1.NodeClassReference) *engine.Class {
	for i := range s.Classes {
		if ref != nil && s.Classes[i].Ref == *ref {
			return &s.Classes[i]
		}
	}
	return nil
}
