package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
)

// whatIf plans a cluster with changed objects. The result is the same as tenon plan --disrupt with these objects in its files.
type whatIf struct {
	snapshot *engine.Snapshot
	options  engine.Options
	ignored  map[string]bool // kinds that the controller ignores
	now      float64         // the cost of the nodes
	before   *engine.Plan
}

// try answers a text in three parts: the machines that would start, then the nodes that would be removed, then the bills of the complete change. Each
// later part is the Rest of the part before. After stop returns true, a part ends soon and its answer is incomplete.
func (w *whatIf) try(text []byte, stop func() bool) (*dashboard.Outcome, error) {
	out, s := w.read(text)
	if s == nil {
		return out, nil
	}
	s, over := lifecycle.Refresh(s)
	out.Notes = append(out.Notes, over...)
	opt := w.options
	opt.Stop = stop
	cache := &inventory.Cache{}
	plan := provisioning.Plan(s, opt, cache)
	before := *w.before
	before.Disruptions, before.Kept = nil, nil // not compared until they are known for the changed cluster
	if err := w.compare(out, s, &before, plan); err != nil {
		return nil, err
	}
	out.Rest = func() (*dashboard.Outcome, error) {
		whole, all := *plan, *out
		disrupts := disruption.Plan(s, opt, cache)
		if !stop() {
			nomination.Foresee(s, opt, &whole)
		}
		whole.Disruptions, whole.Kept = disrupts.Disruptions, disrupts.Kept
		all.Disrupts, all.Rest = true, func() (*dashboard.Outcome, error) {
			complete := all
			complete.Rest = nil
			complete.After.Complete = completeBill(s, opt, &complete.After)
			unchanged := w.options
			unchanged.Stop = stop
			complete.Before.Complete = completeBill(w.snapshot, unchanged, &complete.Before)
			return &complete, nil
		}
		return &all, w.compare(&all, s, w.before, &whole)
	}
	return out, nil
}

// completeBill returns the bill, in USD per hour, if all pods ran where tenon savings plans them. It includes the machines for waiting pods
// and the nodes that tenon savings does not compare.
func completeBill(s *engine.Snapshot, opt engine.Options, f *dashboard.Figures) *float64 {
	bills := explain.NewBills(s, opt)
	return new(f.Now - bills.NowPerHour + bills.PlannedPerHour + f.LaunchesPerHour)
}

// read parses the objects of a text. It returns the cluster with these objects, or nil if the outcome has mistakes.
func (w *whatIf) read(text []byte) (*dashboard.Outcome, *engine.Snapshot) {
	changed := changeOf(w.snapshot, w.ignored, text)
	out := &dashboard.Outcome{Notes: changed.Notes}
	for _, o := range changed.Objects {
		out.Objects = append(out.Objects, dashboard.Tried(o))
	}
	for _, m := range changed.Mistakes {
		out.Mistakes = append(out.Mistakes, dashboard.Mistake(m))
	}
	if len(out.Mistakes) > 0 {
		return out, nil
	}
	return out, changed.Snapshot
}

// compare compares the plan of the changed cluster with the plan of the unchanged one.
func (w *whatIf) compare(out *dashboard.Outcome, s *engine.Snapshot, before, plan *engine.Plan) error {
	var document bytes.Buffer
	if err := newPlanDocument(plan).writeJSON(&document); err != nil {
		return err
	}
	out.Plan = document.Bytes()
	now := w.now + newNodeTable(s, plan).PricePerHour - newNodeTable(w.snapshot, before).PricePerHour // NodeOverlays change the cost of nodes
	out.Before, out.After = figures(w.snapshot, before, w.now), figures(s, plan, now)
	out.Differences = differences(w.snapshot, s, before, plan)
	return nil
}

// figures sums up a plan.
func figures(s *engine.Snapshot, plan *engine.Plan, now float64) dashboard.Figures {
	f := dashboard.Figures{Now: now, Launches: len(plan.Launches), LaunchesPerHour: plan.Cost.LaunchesPerHour, Bound: plan.Cost.Bound,
		Refused: len(plan.Unplaced), Drifted: len(drifted(s))}
	for _, d := range plan.Disruptions {
		f.Leaving, f.Saving = f.Leaving+len(d.Nodes), f.Saving+d.SavingPerHour
	}
	kept := map[engine.Code]int{}
	for _, k := range plan.Kept {
		kept[k.Reason.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(kept)) {
		f.Kept = append(f.Kept, dashboard.KeptCount{Code: string(code), Count: kept[code]})
	}
	slices.SortStableFunc(f.Kept, func(a, b dashboard.KeptCount) int { return cmp.Compare(b.Count, a.Count) })
	return f
}

// drifted returns the reason of each drifted machine, by the name of its node, or of its claim before there is a node.
func drifted(s *engine.Snapshot) map[string]string {
	out := map[string]string{}
	for _, c := range s.NodeClaims {
		if d := v1.GetCondition(c, v1.ConditionDrifted); d != nil && d.Status == "True" {
			out[cmp.Or(c.Status.NodeName, c.Name)] = d.Reason
		}
	}
	return out
}

// differences lists the differences between two plans: first launches, then pods, buffers and nodes.
func differences(s, with *engine.Snapshot, before, after *engine.Plan) []dashboard.Difference {
	out := launchDifferences(before.Launches, after.Launches)
	out = append(out, podDifferences(before, after)...)
	out = append(out, bufferDifferences(before.Buffers, after.Buffers)...)
	then, now := drifted(s), drifted(with)
	for _, node := range slices.Sorted(maps.Keys(now)) {
		if then[node] == "" {
			out = append(out, dashboard.Difference{Text: fmt.Sprintf("node %s drifts: %s", node, now[node])})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(then)) {
		if now[node] == "" {
			out = append(out, dashboard.Difference{Text: "node " + node + " has not drifted any more"})
		}
	}
	return append(out, nodeDifferences(before, after)...)
}

// launchDifferences counts the machines of each kind that only one of the plans starts.
func launchDifferences(before, after []engine.Launch) []dashboard.Difference {
	type kind struct {
		pool, machine string
		price         float64
	}
	more := map[kind]int{}
	for by, launches := range map[int][]engine.Launch{-1: before, 1: after} {
		for i := range launches {
			l := &launches[i]
			k := kind{pool: l.NodePool, price: l.Price}
			if len(l.Offerings) > 0 {
				o := l.Offerings[0]
				k.machine = strings.Join(strings.Fields(o.InstanceType+" "+o.Zone+" "+o.CapacityType), " ")
			}
			more[k] += by
		}
	}
	kinds := slices.SortedFunc(maps.Keys(more), func(a, b kind) int {
		return cmp.Or(cmp.Compare(more[b], more[a]), cmp.Compare(a.pool, b.pool), cmp.Compare(a.machine, b.machine), cmp.Compare(a.price, b.price))
	})
	var out []dashboard.Difference
	for _, k := range kinds {
		n, verb := more[k], "more"
		if n == 0 {
			continue
		}
		if n < 0 {
			n, verb = -n, "less"
		}
		out = append(out, dashboard.Difference{Text: fmt.Sprintf("%s %s to start in pool %s: %s, %s/h each", count(n, "machine"), verb, k.pool, cmp.Or(k.machine, "-"), engine.Dollars(k.price))})
	}
	return out
}

// mostNames is the largest number of pods that a difference names.
const mostNames = 5

// podDifferences lists the pods that have a place in only one of the plans.
func podDifferences(before, after *engine.Plan) []dashboard.Difference {
	refused := func(p *engine.Plan) map[string]*engine.Unplaced {
		out := map[string]*engine.Unplaced{}
		for i := range p.Unplaced {
			out[p.Unplaced[i].Pod.String()] = &p.Unplaced[i]
		}
		return out
	}
	then, now := refused(before), refused(after)
	var run, cannot []string
	for _, pod := range slices.Sorted(maps.Keys(then)) {
		if now[pod] == nil {
			run = append(run, pod)
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(now)) {
		if then[pod] == nil {
			cannot = append(cannot, pod)
		}
	}
	var out []dashboard.Difference
	if n := len(run); n > 0 {
		out = append(out, dashboard.Difference{Text: count(n, "pod") + " less that nothing can run", Names: run[:min(n, mostNames)]})
	}
	if n := len(cannot); n > 0 {
		d := dashboard.Difference{Text: count(n, "more pod") + " that nothing can run", Names: cannot[:min(n, mostNames)]}
		if reasons := now[cannot[0]].Reasons; len(reasons) > 0 {
			d.Detail = engine.Sentence(reasons)
		}
		out = append(out, d)
	}
	return out
}

// bufferDifferences lists the CapacityBuffers that differ between the plans.
func bufferDifferences(before, after []engine.BufferRoom) []dashboard.Difference {
	words := func(b engine.BufferRoom) string {
		if b.Problem != "" {
			return "keeps no room"
		}
		return fmt.Sprintf("keeps room for %s: %d on nodes, %d to come, %s/h", count(b.Size, "pod"), b.Existing, b.Coming, engine.Dollars(b.PerHour))
	}
	then := map[string]string{}
	for _, b := range before {
		then[b.Namespace+"/"+b.Name] = words(b)
	}
	var out []dashboard.Difference
	for _, b := range after {
		if name := b.Namespace + "/" + b.Name; then[name] != words(b) {
			out = append(out, dashboard.Difference{Text: "a CapacityBuffer " + words(b), Detail: b.Problem, Names: []string{name}})
		}
	}
	return out
}

// nodeDifferences lists the nodes that are removed in only one of the plans, and the nodes that are kept for another reason.
func nodeDifferences(before, after *engine.Plan) []dashboard.Difference {
	leaving := func(p *engine.Plan) map[string]string {
		out := map[string]string{}
		for _, d := range p.Disruptions {
			for _, n := range d.Nodes {
				out[n] = string(d.Reason) + engine.SavingWords(d.SavingPerHour)
				if len(d.Nodes) > 1 {
					out[n] += fmt.Sprintf(" together with %s", count(len(d.Nodes)-1, "other"))
				}
			}
		}
		return out
	}
	kept := func(p *engine.Plan) map[string]engine.Reason {
		out := map[string]engine.Reason{}
		for _, k := range p.Kept {
			out[cmp.Or(k.Node, k.Claim)] = k.Reason
		}
		return out
	}
	goneThen, goneNow, then, now := leaving(before), leaving(after), kept(before), kept(after)
	var out []dashboard.Difference
	for _, node := range slices.Sorted(maps.Keys(goneNow)) {
		if goneThen[node] == "" {
			out = append(out, dashboard.Difference{Text: "node " + node + " goes: " + goneNow[node]})
		}
	}
	var others []dashboard.Difference
	for _, node := range slices.Sorted(maps.Keys(now)) {
		was, is := then[node].Code, now[node].Code
		switch {
		case goneThen[node] != "":
			out = append(out, dashboard.Difference{Text: fmt.Sprintf("node %s stays: %s", node, is), Detail: now[node].Message()})
		case was != is && was != "":
			others = append(others, dashboard.Difference{Text: fmt.Sprintf("node %s stays for another reason: %s, not %s", node, is, was), Detail: now[node].Message()})
		}
	}
	return append(out, others...)
}
