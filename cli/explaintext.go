package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

// An objectStory is explain's text about one object. All pages and commands that explain an object take the words from here.
type objectStory struct {
	kind, name, headline string
	parts                []part
}

// A part of a story has text after a title, lines, facts or a table. The first row of a table is its heading.
type part struct {
	title    string
	alarming bool // the title is about a fault
	text     string
	lines    []string
	facts    []fact
	rows     [][]string
	follows  bool // no empty line separates this part from the part before
}

// write prints the story.
func (s *objectStory) write(t *terminal) {
	t.line("%s %s: %s", t.paint(bold, s.kind), s.name, s.headline)
	for _, p := range s.parts {
		if !p.follows {
			t.line("")
		}
		if p.title != "" {
			c := bold
			if p.alarming {
				c = red
			}
			t.line("%s %s", t.paint(c, p.title), p.text)
		}
		t.lines(p.lines)
		writeLines(t, p.facts)
		if len(p.rows) > 0 {
			t.lines(table(t, "", p.rows))
		}
	}
}

// podStory returns the story of a pod: the plan for it.
func podStory(s *explain.PodExplanation) objectStory {
	out := objectStory{kind: "Pod", name: s.Pod, headline: headline(s)}
	var lines []string
	for _, r := range s.Reasons {
		lines = append(lines, "  "+reasonLine(r.Reason()))
	}
	if s.Outcome == explain.OutcomeRefused {
		lines = append(lines, fmt.Sprintf("It asks for %s.", requestWords(s.Requests)))
		if len(s.OtherGroups) > 0 {
			lines = append(lines, capital(explain.OtherGroupsSentence(s.OtherGroups))+".")
		}
	}
	out.parts = append(out.parts, part{lines: lines, follows: true})
	if s.Machine == nil {
		return out
	}
	facts := machineFacts(s.Machine, s.Launch == nil)
	if s.Launch != nil {
		facts = append(facts, launchFacts(s.Launch)...)
	}
	for _, n := range s.Notes {
		facts = append(facts, fact{"note", n})
	}
	out.parts = append(out.parts, part{facts: facts})
	return out
}

// requestStory returns the story of a ProvisioningRequest: the plan for it.
func requestStory(s *explain.RequestExplanation) objectStory {
	out := objectStory{kind: "ProvisioningRequest", name: s.Request, headline: s.Summary}
	if s.Message != "" {
		out.parts = append(out.parts, part{lines: []string{fmt.Sprintf("  %s [%s]", s.Message, s.Reason)}, follows: true})
	}
	var sets []string
	for _, set := range s.PodSets {
		sets = append(sets, fmt.Sprintf("%d of PodTemplate %s", set.Count, set.PodTemplate))
	}
	facts := []fact{{"class", s.Class}, {"pods", orDash(strings.Join(sets, ", "))}}
	if s.Size > 0 {
		facts = append(facts, fact{"to come", fmt.Sprintf("%s: nodes have room for %d, machines that start for %d", count(s.Size, "pod"), s.Existing, s.Coming)})
	}
	if len(s.Launches) > 0 {
		facts = append(facts, fact{"launches", some(s.Launches, mostPodGroups)})
	}
	if s.Advice != "" {
		facts = append(facts, fact{"to do", s.Advice})
	}
	out.parts = append(out.parts, part{facts: facts})
	return out
}

// gangStory returns the story of a PodGroup: the plan for it.
func gangStory(s *explain.GangExplanation) objectStory {
	out := objectStory{kind: "PodGroup", name: s.PodGroup, headline: s.Summary}
	var lines []string
	for _, r := range s.Reasons {
		lines = append(lines, "  "+reasonLine(r.Reason()))
	}
	out.parts = append(out.parts, part{lines: lines, follows: true})
	var facts []fact
	if s.Progress != "" {
		facts = append(facts, fact{"together", count(s.MinCount, "pod")}, fact{"running", fmt.Sprint(s.Running)},
			fact{"to come", fmt.Sprintf("%d have a place on nodes that are there, %d on machines that start, and %d none", s.Existing, s.Coming, s.Left)})
	}
	if s.TopologyKey != "" {
		facts = append(facts, fact{"in one", s.TopologyKey})
	}
	if len(s.Launches) > 0 {
		facts = append(facts, fact{"launches", some(s.Launches, mostPodGroups)})
	}
	if len(s.Pods) > 0 {
		facts = append(facts, fact{"pods", some(s.Pods, mostPodGroups)})
	}
	if s.Advice != "" {
		facts = append(facts, fact{"to do", s.Advice})
	}
	out.parts = append(out.parts, part{facts: facts})
	return out
}

// requestWords lists a pod's requests, without its place in the node's number of pods.
func requestWords(requests map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if amount, err := resource.ParseQuantity(requests[name]); err == nil && name != string(corev1.ResourcePods) {
			parts = append(parts, engine.AmountWords(corev1.ResourceName(name), amount)+" "+name)
		}
	}
	if len(parts) == 0 {
		return "no more than a place on a node"
	}
	return strings.Join(parts, ", ")
}

// headline returns the story's first sentence. It returns only the beginning of it if reasons or the machine follow in lines of their own.
func headline(s *explain.PodExplanation) string {
	from := ""
	if s.From != "" {
		from = "its node " + s.From + " is leaving, and "
	}
	switch s.Outcome {
	case explain.OutcomeRefused:
		return from + "nothing can run it"
	case explain.OutcomeElsewhere:
		return "it waits for another autoscaler"
	case explain.OutcomeLaunch:
		return from + "a machine has to be started for it"
	}
	return s.Summary
}

// fact is a line that begins with a name.
type fact struct{ name, text string }

func writeLines(t *terminal, facts []fact) {
	width := 0
	for _, f := range facts {
		width = max(width, len(f.name))
	}
	for _, f := range facts {
		t.line("%s", strings.TrimRight(fmt.Sprintf("  %s%s  %s", t.paint(faint, f.name), strings.Repeat(" ", width-len(f.name)), f.text), " "))
	}
}

// machineFacts describes a machine, and the share of it that the pod requests.
func machineFacts(m *explain.MachineRecord, existing bool) []fact {
	var out []fact
	if existing && m.Node != "" {
		out = append(out, fact{"node", m.Node})
	}
	if existing && m.Node == "" && m.Claim != "" {
		out = append(out, fact{"nodeclaim", m.Claim})
	}
	out = append(out, fact{"machine", m.Words()}, fact{"pool", orDash(m.NodePool)}, fact{"price", priceWords(m.PricePerHour)})
	if m.ShareOf != "" {
		text := fmt.Sprintf("%.0f %% of the machine's %s", 100*m.Share, m.ShareOf)
		if m.PricePerHour != nil {
			text += ", as a share of the price " + engine.Dollars(m.Share**m.PricePerHour) + "/h"
		}
		out = append(out, fact{"asks for", text})
	}
	return out
}

func priceWords(price *float64) string {
	if price == nil {
		return "not in any catalog"
	}
	return fmt.Sprintf("%s/h, $%.2f a month", engine.Dollars(*price), engine.HoursPerMonth**price)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// launchFacts describes a launch and the reasons for its choice.
func launchFacts(l *explain.LaunchRecord) []fact {
	facts := []fact{{"launch", l.Name}}
	if len(l.Pods) == 1 {
		facts = append(facts, fact{"for", "this pod alone"})
	} else {
		facts = append(facts, fact{"for", podList(l.PodIDs)})
	}
	if l.Commitment != "" {
		facts = append(facts, fact{"paid by", "commitment " + l.Commitment + ", which costs as much without it; the price is what comes on top"})
	}
	if l.FilledBy != "" {
		facts = append(facts, fact{"full", fmt.Sprintf("%.0f %% of its %s is asked for", 100*l.Filled, l.FilledBy)})
	}
	facts = append(facts, fact{"chosen", fmt.Sprintf("from %s that can hold its pods; the cloud may take any of %d at about the price",
		count(l.Considered, "offering"), l.Listed)})
	if l.RunnerUp != nil {
		facts = append(facts, fact{"instead of", engine.Choice{RunnerUp: *l.RunnerUp, PriceDifference: l.RunnerUpCostsMore}.RunnerUpSentence()})
	}
	if l.Division != nil {
		facts = append(facts, fact{"listed", l.Division.Sentence()})
	}
	for i, o := range l.SoldOut {
		if i == mostPodGroups {
			facts = append(facts, fact{"", fmt.Sprintf("and %d more", len(l.SoldOut)-i)})
			break
		}
		facts = append(facts, fact{"sold out", o.Words() + ", which would have cost " + engine.Dollars(o.Price) + "/h"})
	}
	for _, r := range l.PassedOver {
		facts = append(facts, fact{"passed over", "pool " + r.NodePool + " comes first: " + r.Message})
	}
	for _, u := range l.Limits {
		facts = append(facts, fact{"limit", fmt.Sprintf("the pool uses %s of %s %s without this machine", u.UsedWords, u.AvailableWords, u.Resource)})
	}
	for _, w := range l.Worth {
		facts = append(facts, fact{"worth", w.Sentence()})
	}
	return facts
}

// nodeStory describes a node, and why it is kept.
func nodeStory(name string, s *explain.NodeExplanation) objectStory {
	condition := "not ready"
	switch {
	case s.Node == "":
		condition = "not there yet"
	case s.Ready:
		condition = "ready"
	}
	if s.Cordoned {
		condition += ", cordoned"
	}
	if s.Leaving {
		condition += ", leaving"
	}
	facts := []fact{{"machine", s.Words()}, {"pool", orDash(s.NodePool)}, {"nodeclaim", orDash(s.Claim)},
		{"price", priceWords(s.PricePerHour)}, {"state", condition}, {"age", ageSince(s.Created, s.Age)}}
	for _, c := range s.Conditions {
		if c.Status == metav1.ConditionTrue && c.Message == "" {
			continue // the expected state
		}
		facts = append(facts, fact{"condition", strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message), ": ")})
	}
	out := objectStory{kind: "Node", name: name, headline: s.Summary, parts: []part{{facts: facts}}}
	if len(s.Resources) > 0 {
		rows := [][]string{{"RESOURCE", "REQUESTED", "ALLOCATABLE", "SHARE"}}
		for _, u := range s.Resources {
			rows = append(rows, []string{string(u.Resource), u.UsedWords, u.AvailableWords, fmt.Sprintf("%.0f %%", 100*u.Share)})
		}
		out.parts = append(out.parts, part{rows: rows})
	}
	out.parts = append(out.parts, nodePods(s)...)
	return out
}

// nodePods lists the pods on a node, the pods that will be bound to it, and the node's replacements.
func nodePods(s *explain.NodeExplanation) []part {
	var parts []part
	if len(s.Pods) > 0 {
		rows := [][]string{{"POD", "LARGEST SHARE", ""}}
		for _, p := range s.Pods {
			share, kind := "-", ""
			if p.ShareOf != "" {
				share = fmt.Sprintf("%.0f %% %s", 100*p.Share, p.ShareOf)
			}
			if p.DaemonSet {
				kind = "of a DaemonSet"
			}
			rows = append(rows, []string{p.Pod, share, kind})
		}
		parts = append(parts, part{rows: rows})
	}
	if len(s.Expected) > 0 {
		parts = append(parts, part{title: "To run here:", text: podList(s.ExpectedIDs)})
	}
	if d := s.Disruption; d != nil {
		for _, r := range d.Replacements {
			parts = append(parts, part{title: "Replaced by:", text: r, follows: true})
		}
	}
	return parts
}

// ageSince returns the age of an object in kubectl's form, or a dash if the object has no creation time, as in a manifest.
func ageSince(created metav1.Time, age time.Duration) string {
	if created.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(age, 0))
}
