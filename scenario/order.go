package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/replacement"
)

const orderWords = "nodes= by= reason= age= within="

// order reads order NAME with its words: a begun disruption with replacements. Its nodes get a mark and a taint. Existing claims of
// replacements get the annotation about it.
func (b *builder) order(name word, r *reader) error {
	m := inventory.Mark{ID: name.text, Reason: v1.Drifted}
	age := time.Minute
	for r.more() {
		w := r.next()
		key, value := w.cut()
		var err error
		switch key {
		case "nodes":
			m.Claims = w.list()
		case "by":
			m.Replacements = w.list()
		case "reason":
			m.Reason = v1.DisruptionReason(value)
		case "age":
			age, err = w.duration()
		case "within":
			m.DrainWithin = &metav1.Duration{}
			m.DrainWithin.Duration, err = w.duration()
		default:
			err = r.unknown(w, orderWords)
		}
		if err != nil {
			return err
		}
	}
	if len(m.Claims) == 0 || len(m.Replacements) == 0 {
		return name.errorf("write which nodes go and what replaces them: nodes=a,b by=c")
	}
	m.Decided = b.snapshot.Now.Add(-age)
	found := 0
	for i, c := range b.snapshot.NodeClaims {
		switch {
		case slices.Contains(m.Claims, c.Name):
			found++
			c = c.DeepCopy()
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, inventory.DisruptionAnnotation, m.String())
			v1.SetCondition(c, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(m.Reason), string(m.Reason), m.Decided)
		case slices.Contains(m.Replacements, c.Name):
			c = c.DeepCopy()
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, inventory.ReplacesAnnotation, m.Replaces().String())
		}
		b.snapshot.NodeClaims[i] = c
	}
	if found < len(m.Claims) {
		return name.errorf("not all of %s are above", strings.Join(m.Claims, ", "))
	}
	for i, n := range b.snapshot.Nodes {
		if slices.Contains(m.Claims, n.Name) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }) {
			n = n.DeepCopy()
			n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
			b.snapshot.Nodes[i] = n
		}
	}
	return nil
}

// printOrders prints the next steps of disruptions in progress.
func printOrders(orders []replacement.Order) string {
	var out strings.Builder
	for _, o := range orders {
		what := strings.Join(o.Claims, " ")
		switch o.Step {
		case replacement.OrderFinish:
			fmt.Fprintf(&out, "finish %s: %s\n", strings.Join(o.Going(), " "), o.Reason)
			for _, name := range o.Claims {
				if why := o.Staying[name]; !why.OK() {
					fmt.Fprintf(&out, "  %s stays: %s\n", name, why)
				}
			}
		case replacement.OrderWait:
			fmt.Fprintf(&out, "wait %s: %s\n", what, o.Why)
		default:
			fmt.Fprintf(&out, "roll back %s: %s\n", cmp.Or(what, o.ID), o.Why)
		}
		if len(o.Surrender) > 0 {
			fmt.Fprintf(&out, "  give up %s\n", strings.Join(o.Surrender, " "))
		}
	}
	if out.Len() == 0 {
		return "nothing in progress\n"
	}
	return out.String()
}

// printResizings prints the steps that bring pools to their fixed size.
func printResizings(list []disruption.Resizing) string {
	var out strings.Builder
	for _, r := range list {
		for i, l := range r.Create {
			if i == 0 {
				fmt.Fprintf(&out, "create %s\n", strings.TrimSuffix(launchLine(l), ": "))
				continue
			}
			fmt.Fprintf(&out, "create %s\n", l.Name)
		}
		if len(r.Remove) > 0 {
			fmt.Fprintf(&out, "remove %s\n", strings.Join(r.Remove, " "))
		}
		if !r.Why.OK() {
			fmt.Fprintf(&out, "short %s: %s\n", r.NodePool, r.Why)
		}
	}
	if out.Len() == 0 {
		return "nothing to do\n"
	}
	return out.String()
}
