package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// This file prints the changes of a life's steps.

func (x *lifeRun) say(format string, args ...any) { fmt.Fprintf(&x.out, format, args...) }

// changes prints the differences of an object, below its name.
type changes struct {
	x     *lifeRun
	title string
}

func (c *changes) line(format string, args ...any) {
	if c.title != "" {
		c.x.say("%s\n", c.title)
		c.title = ""
	}
	c.x.say("  "+format+"\n", args...)
}

// list prints the difference between two lists.
func (c *changes) list(what string, before, after []string) {
	for _, x := range []struct {
		sign         string
		of, unlessIn []string
	}{{"-", before, after}, {"+", after, before}} {
		values := slices.DeleteFunc(slices.Clone(x.of), func(v string) bool { return slices.Contains(x.unlessIn, v) })
		if len(values) > 0 {
			c.line("%s %s %s", x.sign, what, strings.Join(values, " "))
		}
	}
}

func (c *changes) meta(before, after metav1.Object) {
	c.list("finalizer", before.GetFinalizers(), after.GetFinalizers())
	c.list("owner", owners(before), owners(after))
	c.list("label", pairsOf(before.GetLabels()), pairsOf(after.GetLabels()))
	c.list("annotation", pairsOf(before.GetAnnotations()), pairsOf(after.GetAnnotations()))
}

func owners(o metav1.Object) []string {
	var out []string
	for _, r := range o.GetOwnerReferences() {
		text := r.Kind + "/" + r.Name
		if r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion {
			text += " (blocking)"
		}
		out = append(out, text)
	}
	return out
}

func pairsOf(m map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return out
}

// putNode stores a node and prints its changes.
func (x *lifeRun) putNode(n *corev1.Node) {
	before := named(x.s.Nodes, n.Name)
	c := &changes{x, "node " + n.Name}
	c.list("taint", taintsOf(before), taintsOf(n))
	c.meta(before, n)
	put(&x.s.Nodes, n)
}

func taintsOf(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		out = append(out, t.ToString())
	}
	return out
}

// putClaim stores a claim and prints its changes.
func (x *lifeRun) putClaim(claim *v1.NodeClaim) {
	before := x.life.Claim
	c := &changes{x, "claim " + claim.Name}
	c.meta(before, claim)
	c.value("provider ID", before.Status.ProviderID, claim.Status.ProviderID)
	c.value("node", before.Status.NodeName, claim.Status.NodeName)
	for _, condition := range claim.Status.Conditions {
		old := cmp.Or(v1.GetCondition(before, condition.Type), &metav1.Condition{})
		c.value(condition.Type, conditionText(*old), conditionText(condition))
	}
	for _, condition := range before.Status.Conditions {
		if v1.GetCondition(claim, condition.Type) == nil {
			c.line("- %s", condition.Type)
		}
	}
	if last := claim.Status.LastPodEventTime; !last.Equal(&before.Status.LastPodEventTime) {
		c.line("last pod event %s", engine.ClockText(last.Time))
	}
	put(&x.s.NodeClaims, claim)
}

func (c *changes) value(what, before, after string) {
	if before != after {
		c.line("%s %s", what, after)
	}
}

// conditionText returns a condition's status, with its reason and message if they differ from the type.
func conditionText(c metav1.Condition) string {
	text := string(c.Status)
	if c.Reason != c.Type {
		text += " " + c.Reason
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// printEvents prints each event once, because a recorder drops repeated events. Events with the same text share a line.
func (x *lifeRun) printEvents(events []engine.Event) {
	for i := 0; i < len(events); {
		var objects []string
		e := events[i]
		for ; i < len(events) && events[i].Reason == e.Reason && events[i].Message == e.Message; i++ {
			o := events[i].Object
			objects = append(objects, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
		}
		kind := "event"
		if e.Warning {
			kind = "warning"
		}
		text := fmt.Sprintf("%s on %s: %s: %s\n", kind, strings.Join(objects, ", "), e.Reason, e.Message)
		if !x.told[text] {
			x.told[text] = true
			x.out.WriteString(text)
		}
	}
}
