package journal

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Reasons of records that do not come from a plan's disruption.
const (
	Pending       = "Pending"
	Unschedulable = "Unschedulable"
	Interrupted   = "Interrupted"
	ByDeletion    = "Deleted"
)

const (
	mostPodNames   = 20 // per record
	mostRejections = 12
	mostNames      = 3 // the most names of rejected nodes or pods for one reason
)

// newRecord returns a record with the figures of the snapshot.
func newRecord(s *engine.Snapshot, prices *inventory.PriceBook, now time.Time, kind Kind, reason string) Record {
	r := Record{Time: now.UTC(), Kind: kind, Reason: reason, Outcome: InProgress,
		Seen: Seen{At: s.Now.UTC(), Nodes: len(s.Nodes), Pods: len(s.Pods)}}
	for _, p := range s.Pods {
		if p.Spec.NodeName == "" && kube.IsPending(p) {
			r.Seen.Waiting++
		}
	}
	for _, n := range s.Nodes {
		if price, known := prices.Price(n.Labels, nil); known {
			r.Seen.PricePerHour += price
		}
	}
	return r
}

// named sets the record's ID. The same decision gets the same ID.
func (r *Record) named() Record {
	sum := fnv.New64a()
	fmt.Fprint(sum, r.Kind, r.Reason, r.Time.UnixNano(), r.NodePools, r.Pods)
	for i := range r.Machines {
		fmt.Fprint(sum, r.Machines[i].Claim, "\x00")
	}
	r.ID = fmt.Sprintf("%s-%012x", r.Time.Format("20060102T150405"), sum.Sum64()>>16)
	return *r
}

// Launches returns the records of a plan's launches, one for each pool. claims has the NodeClaim's name for each launch in the plan's order,
// "" for launches without a NodeClaim.
func Launches(s *engine.Snapshot, plan *engine.Plan, claims []string, now time.Time) []Record {
	prices := inventory.NewPriceBook(s)
	var out []Record
	index := map[string]int{}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if claims[i] == "" {
			continue
		}
		at, known := index[l.NodePool]
		if !known {
			at = len(out)
			index[l.NodePool] = at
			r := newRecord(s, prices, now, Launch, Pending)
			r.NodePools, r.Says = []string{l.NodePool}, l.Sentence()
			out = append(out, r)
		}
		r := &out[at]
		m := newMachine(l)
		m.Claim = claims[i]
		r.Machines = append(r.Machines, m)
		r.PriceAfter += l.Price
		r.SavingPerHour -= l.Price
		r.addPods(l.Pods)
		r.Steps = append(r.Steps, Step{Time: r.Time, Claim: claims[i], What: Asked})
		r.rejectRunnerUp(l)
	}
	for i := range out {
		r := &out[i]
		if n := len(r.Machines); n > 1 {
			r.Says = fmt.Sprintf("%d machines of pool %s for %s/h", n, r.NodePools[0], engine.Dollars(r.PriceAfter))
		}
		if r.Pods > 0 {
			r.Says += ", for " + engine.Plural(r.Pods, "pod")
		}
		out[i] = r.named()
	}
	return out
}

func newMachine(l *engine.Launch) Machine {
	m := Machine{Comes: true, NodePool: l.NodePool, PricePerHour: new(l.Price)}
	if len(l.Offerings) > 0 {
		o := l.Offerings[0]
		m.InstanceType, m.Zone, m.CapacityType = o.InstanceType, o.Zone, o.CapacityType
	}
	return m
}

// rejectRunnerUp adds the second-best choice to the rejections.
func (r *Record) rejectRunnerUp(l *engine.Launch) {
	says := l.Why.RunnerUpSentence()
	if says == "" {
		return
	}
	for i := range r.Rejected {
		if r.Rejected[i].Says == says {
			r.Rejected[i].Count++
			return
		}
	}
	if len(r.Rejected) < mostRejections {
		r.Rejected = append(r.Rejected, Rejection{Code: "RunnerUp", Says: says, Count: 1, Names: []string{l.Why.RunnerUp.String()}})
	}
}

func (r *Record) addPods(pods []engine.PodID) {
	r.Pods += len(pods)
	for _, p := range pods {
		if len(r.PodNames) == mostPodNames {
			return
		}
		r.PodNames = append(r.PodNames, p.String())
	}
}

// Disruptions returns the records of the begun disruptions of a plan. Disruptions with the same reason and pools and without replacements
// share a record.
func Disruptions(s *engine.Snapshot, plan *engine.Plan, begun []engine.Disruption, now time.Time) []Record {
	if len(begun) == 0 {
		return nil
	}
	prices, claims := inventory.NewPriceBook(s), claimsByName(s)
	var out []Record
	index := map[string]int{}
	for i := range begun {
		d := &begun[i]
		r := newRecord(s, prices, now, Disruption, string(d.Reason))
		for j, name := range d.Claims {
			m := Machine{Claim: name, Node: d.Nodes[j]}
			if c := claims[name]; c != nil {
				m = machineOf(c, prices)
				m.Node = d.Nodes[j]
			}
			r.Machines = append(r.Machines, m)
			r.NodePools = append(r.NodePools, m.NodePool)
			r.PriceBefore += price(&m)
		}
		slices.Sort(r.NodePools)
		r.NodePools = slices.Compact(r.NodePools)
		for j := range d.Replacements {
			r.Machines = append(r.Machines, newMachine(&d.Replacements[j]))
			r.PriceAfter += d.Replacements[j].Price
			r.rejectRunnerUp(&d.Replacements[j])
		}
		r.SavingPerHour, r.Says = d.SavingPerHour, d.Sentence()
		r.addPods(d.Pods)
		key := r.Reason + "/" + strings.Join(r.NodePools, "/")
		if len(d.Replacements)+len(d.YieldsTo) == 0 {
			if at, known := index[key]; known {
				out[at].join(&r)
				continue
			}
			index[key] = len(out)
		}
		out = append(out, r)
	}
	for i := range out {
		out[i].rejectKept(plan)
		out[i] = out[i].named()
	}
	return out
}

// join adds another record to r.
func (r *Record) join(other *Record) {
	r.Machines = append(r.Machines, other.Machines...)
	r.PriceBefore, r.SavingPerHour = r.PriceBefore+other.PriceBefore, r.SavingPerHour+other.SavingPerHour
	r.Pods += other.Pods
	r.PodNames = append(r.PodNames, other.PodNames...)
	r.PodNames = r.PodNames[:min(len(r.PodNames), mostPodNames)]
	r.Says = fmt.Sprintf("%s: %s%s", r.Reason, engine.Plural(len(r.Machines), "node"), engine.SavingWords(r.SavingPerHour))
	if r.Pods > 0 {
		r.Says += ", moves " + engine.Plural(r.Pods, "pod")
	}
}

// rejectKept adds to the rejections the nodes of the record's pools that are kept, counted by reason, and the moves that were rejected as not
// balanced.
func (r *Record) rejectKept(plan *engine.Plan) {
	index := map[engine.Code]int{}
	var kept []Rejection
	for _, k := range plan.Kept {
		if !slices.Contains(r.NodePools, k.NodePool) {
			continue
		}
		at, known := index[k.Reason.Code]
		if !known {
			at = len(kept)
			index[k.Reason.Code] = at
			kept = append(kept, Rejection{Code: string(k.Reason.Code), Says: k.Reason.Message()})
		}
		kept[at].Count++
		if len(kept[at].Names) < mostNames {
			kept[at].Names = append(kept[at].Names, k.Node)
		}
	}
	slices.SortStableFunc(kept, func(a, b Rejection) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code)) })
	for _, j := range plan.Judgements {
		if !j.Approved && slices.Contains(r.NodePools, j.NodePool) && j.Balance != nil {
			r.Rejected = append(r.Rejected, Rejection{Code: "NotBalanced", Count: len(j.Nodes), Names: j.Nodes[:min(len(j.Nodes), mostNames)],
				Says: fmt.Sprintf("it would save %.1f %% of the pool's price, for %.1f %% of its disruption", 100*j.Balance.Saving, 100*j.Balance.Disruption)})
		}
	}
	r.Rejected = append(r.Rejected, kept...)
	r.Rejected = r.Rejected[:min(len(r.Rejected), mostRejections)]
}

// refusalKey returns a key of a refusal: the pods' owner and the reasons. Each key gets a record of its own.
func refusalKey(owner string, u *engine.Unplaced) string {
	key := u.Pod.Namespace + "/" + owner
	for _, reason := range u.Reasons {
		key += "\x00" + string(reason.Code) + reason.NodePool
	}
	return key
}

// Refusals returns the record of pods that nothing can run. It returns nil if all of them have been recorded. The function `told` reports whether a
// refusal with the key has been recorded.
func Refusals(s *engine.Snapshot, plan *engine.Plan, told func(key string) bool, now time.Time) *Record {
	owners := map[engine.PodID]string{}
	for _, p := range s.Pods {
		if p.Spec.NodeName == "" {
			owners[kube.PodID(p)] = ownerOf(p)
		}
	}
	var r *Record
	index := map[string]int{}
	for i := range plan.Unplaced {
		u := &plan.Unplaced[i]
		if told(refusalKey(cmp.Or(owners[u.Pod], u.Pod.Name), u)) {
			continue
		}
		if r == nil {
			r = new(newRecord(s, inventory.NewPriceBook(s), now, Refusal, Unschedulable))
			r.Outcome = Done
		}
		r.addPods([]engine.PodID{u.Pod})
		for _, reason := range u.Reasons {
			if p := reason.NodePool; p != "" && !slices.Contains(r.NodePools, p) {
				r.NodePools = append(r.NodePools, p)
			}
		}
		says := engine.Sentence(u.Reasons)
		at, known := index[says]
		if !known {
			if len(r.Rejected) == mostRejections {
				continue
			}
			at = len(r.Rejected)
			index[says] = at
			code := ""
			if len(u.Reasons) > 0 {
				code = string(u.Reasons[0].Code)
			}
			r.Rejected = append(r.Rejected, Rejection{Code: code, Says: says})
		}
		x := &r.Rejected[at]
		if x.Count++; len(x.Names) < mostNames {
			x.Names = append(x.Names, u.Pod.String())
		}
	}
	if r == nil {
		return nil
	}
	slices.Sort(r.NodePools)
	r.sayRefused()
	return new(r.named())
}

// mostRefusals is the largest number of refusals in a record's sentence. The record itself contains more.
const mostRefusals = 3

// sayRefused sets the record's sentence. It counts pods with different reasons separately, because no pod has all of the reasons.
func (r *Record) sayRefused() {
	r.Says = "nothing can run " + engine.Plural(r.Pods, "pod")
	if len(r.Rejected) == 1 && r.Rejected[0].Count == r.Pods {
		if r.Rejected[0].Says != "" {
			r.Says += ": " + r.Rejected[0].Says
		}
		return
	}
	said := 0
	for i := range r.Rejected[:min(len(r.Rejected), mostRefusals)] {
		x := &r.Rejected[i]
		r.Says += fmt.Sprintf("; %d of them: %s", x.Count, cmp.Or(x.Says, x.Code))
		said += x.Count
	}
	if more := r.Pods - said; more > 0 {
		r.Says += fmt.Sprintf("; %d for other reasons", more)
	}
}

// Removals returns the records of deleted machines that no other record explains, one for each reason.
func Removals(s *engine.Snapshot, explained map[string]bool, now time.Time) []Record {
	var prices *inventory.PriceBook
	nodes := map[string]bool{} // true if the cloud takes the node away
	var out []Record
	index := map[string]int{}
	for _, c := range s.NodeClaims {
		if c.DeletionTimestamp == nil || explained[c.Name] {
			continue
		}
		if prices == nil {
			prices = inventory.NewPriceBook(s)
			for _, n := range s.Nodes {
				nodes[n.Name] = inventory.IsTakenAway(n)
			}
		}
		reason := ByDeletion
		if x := v1.GetCondition(c, v1.ConditionDisruptionReason); x != nil && x.Reason != "" {
			reason = x.Reason
		} else if nodes[c.Status.NodeName] {
			reason = Interrupted
		}
		at, known := index[reason]
		if !known {
			at = len(out)
			index[reason] = at
			out = append(out, newRecord(s, prices, now, Removal, reason))
		}
		r := &out[at]
		m := machineOf(c, prices)
		r.Machines = append(r.Machines, m)
		r.PriceBefore += price(&m)
		if !slices.Contains(r.NodePools, m.NodePool) {
			r.NodePools = append(r.NodePools, m.NodePool)
		}
	}
	for i := range out {
		out[i].sayRemoved()
		out[i] = out[i].named()
	}
	return out
}

func (r *Record) sayRemoved() {
	slices.Sort(r.NodePools)
	does := "go"
	if len(r.Machines) == 1 {
		does = "goes"
	}
	r.Says = engine.Plural(len(r.Machines), "machine") + " " + does + " without a plan"
	switch r.Reason {
	case Interrupted:
		r.Says += ": the cloud takes them back"
	case ByDeletion:
		r.Says += ": told to by somebody, or failed"
	}
}

func claimsByName(s *engine.Snapshot) map[string]*v1.NodeClaim {
	out := make(map[string]*v1.NodeClaim, len(s.NodeClaims))
	for _, c := range s.NodeClaims {
		out[c.Name] = c
	}
	return out
}

// machineOf describes the machine of a claim.
func machineOf(c *v1.NodeClaim, prices *inventory.PriceBook) Machine {
	m := Machine{Claim: c.Name, Node: c.Status.NodeName, NodePool: c.Labels[v1.NodePoolLabelKey]}
	id := inventory.MachineOffering(c.Labels)
	if m.InstanceType, m.Zone = id.InstanceType, id.Zone; m.InstanceType != "" {
		m.CapacityType = id.CapacityType
	}
	if usd, known := prices.Price(c.Labels, c.Spec.NodeClassRef); known {
		m.PricePerHour = &usd
	}
	return m
}

func price(m *Machine) float64 {
	if m.PricePerHour == nil {
		return 0
	}
	return *m.PricePerHour
}
