package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/replacement"
)

// Terminating returns events for a node and its claim: both are removed, and why.
func Terminating(node *corev1.Node, claim *v1.NodeClaim, reason v1.DisruptionReason) []Event {
	e := Event{Reason: DisruptionTerminating, Message: "Disrupting: " + string(reason), Key: string(reason)}
	return onAll([]*corev1.Node{node}, []*v1.NodeClaim{claim}, e)
}

// Launching returns an event for a claim: it replaces others, and why.
func Launching(claim *v1.NodeClaim, reason v1.DisruptionReason) Event {
	return Event{Object: claim, Reason: DisruptionLaunching, Message: "Launching NodeClaim: " + string(reason), Key: string(reason)}
}

// WaitingReadiness returns an event for a claim: others are removed once it is ready.
func WaitingReadiness(claim *v1.NodeClaim) Event {
	return Event{Object: claim, Reason: DisruptionWaitingReadiness, Message: "Waiting on readiness to continue disruption"}
}

// TakenBack returns events for a node and its claim: both are kept after all, though they were about to be replaced.
func TakenBack(node *corev1.Node, claim *v1.NodeClaim, why engine.Reason) []Event {
	e := Event{Reason: DisruptionBlocked, Message: "Took the disruption back, the node stays: " + why.Message(), Key: string(why.Code)}
	return onAll([]*corev1.Node{node}, []*v1.NodeClaim{claim}, e)
}

// Candidates returns events for the nodes and their claims: consolidation is about to replace them.
func Candidates(nodes []*corev1.Node, claims []*v1.NodeClaim, d engine.Disruption) []Event {
	if d.Reason != v1.Underutilized || len(d.Replacements) == 0 {
		return nil
	}
	var types []string
	for _, l := range d.Replacements {
		types = append(types, l.InstanceTypes[0])
	}
	saving := fmt.Sprintf(", saves $%.2f/h", d.SavingPerHour)
	if d.SavingPerHour <= 0 {
		saving = engine.SavingWords(d.SavingPerHour)
	}
	if len(d.NodesLater) > 0 {
		saving += ", with room for the pods of " + list(d.NodesLater)
	}
	message := fmt.Sprintf("Consolidation candidate: replace %s by %d (%s)%s", list(d.Nodes), len(d.Replacements), list(types), saving)
	return onAll(nodes, claims, Event{Reason: ConsolidationCandidate, Message: message, Key: message})
}

func list(names []string) string { return strings.Join(some(names), ", ") }

// Approved returns events about a move that was good enough for the policy Balanced. They are for the removed node and its claim, or for the pool if
// several nodes are removed.
func Approved(nodes []*corev1.Node, claims []*v1.NodeClaim, pool *v1.NodePool, j engine.Judgement) []Event {
	if !j.Approved || j.Balance == nil {
		return nil
	}
	e := Event{Reason: ConsolidationApproved, Message: fmt.Sprintf(
		"Balanced approves removing %s: score %.2f >= threshold %.2f (k: %d), saves %.1f%% of the pool's price for %.1f%% of its disruption",
		list(j.Nodes), j.Balance.Score, disruption.BalanceThreshold, disruption.BalanceFactor, 100*j.Balance.Saving, 100*j.Balance.Disruption)}
	if len(j.Nodes) == 1 {
		return onAll(nodes, claims, e)
	}
	if pool == nil {
		return nil
	}
	e.Object = pool
	return []Event{e}
}

// Rejected returns events for the nodes and their claims: a decision of consolidation is no longer right.
func Rejected(nodes []*corev1.Node, claims []*v1.NodeClaim, reason v1.DisruptionReason, why engine.Reason) []Event {
	if reason != v1.Underutilized {
		return nil
	}
	cause := causeOf(why)
	return onAll(nodes, claims, Event{Reason: ConsolidationRejected, Key: cause, Message: "Consolidation rejected (" + cause + "): " + why.Message()})
}

// causeOf sorts reasons as Karpenter does: budget, scheduling, churn or unknown.
func causeOf(why engine.Reason) string {
	switch why.Code {
	case engine.BudgetExhausted, engine.PodsExpected:
		return "budget"
	case engine.WouldStrand, engine.OnDemandShareLost, engine.PodStranded, engine.CannotMove, engine.LimitReached, engine.QuotaExceeded:
		return "scheduling"
	case engine.NotEmpty, engine.NodeGone, engine.PodGone, engine.AlreadyLeaving, engine.BeingReplaced, engine.PoolChanged,
		engine.NodePoolNotFound, engine.ReplacementGone, engine.DoNotDisrupt, engine.EvictionBlocked:
		return "churn"
	}
	return "unknown"
}

// onAll returns the event for each of the nodes and claims that exist.
func onAll(nodes []*corev1.Node, claims []*v1.NodeClaim, e Event) []Event {
	var events []Event
	for _, n := range nodes {
		if n != nil {
			e.Object = n
			events = append(events, e)
		}
	}
	for _, c := range claims {
		if c != nil {
			e.Object = c
			events = append(events, e)
		}
	}
	return events
}

// Engine converts an event of the engine.
func Engine(e engine.Event) Event {
	out := Event{Object: e.Object, Warning: e.Warning, Reason: e.Reason, Message: e.Message, Key: e.Key}
	if e.Reason == DoNotDisruptElapsed { // it does not change; an hour bounds how much is remembered
		out.Every = time.Hour
	}
	return out
}

// RepairBlocked returns an event for a pool: too many of its nodes are broken, so none is repaired.
func RepairBlocked(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{Object: pool, Reason: NodeRepairBlocked, Warning: true, Every: 15 * time.Minute, Message: "Cannot repair: " + reason.Message()}
}

// Interrupted returns events for a node and its claim: the announcement of the cloud, and whether the machine is given up.
func Interrupted(node *corev1.Node, claim *v1.NodeClaim, x lifecycle.Interruption) []Event {
	var events []Event
	tell := func(reason, message string, warning bool) {
		events = append(events, Event{Object: claim, Reason: reason, Message: message, Warning: warning})
		if node != nil {
			events = append(events, Event{Object: node, Reason: reason, Message: message, Warning: warning})
		}
	}
	tell(x.Event, fmt.Sprintf("The cloud announces for machine %s: %s", x.Machine, x.Kind), x.Kind != engine.NoticeRebalance)
	if x.Leave {
		tell(TerminatingOnInterruption, "Interruption triggered termination of the NodeClaim: "+x.Kind, true)
	}
	return events
}

// BudgetExhausted returns an event for a pool: its budgets keep a node from being removed.
func BudgetExhausted(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{
		Object: pool, Reason: DisruptionBlocked, Every: 10 * time.Minute, Key: reason.Have,
		Message: "No allowed disruptions: " + reason.Message(),
	}
}

// BackedOff returns an event for a pool: nodes are not replaced because replacements failed.
func BackedOff(pool *v1.NodePool, b replacement.Backoff) Event {
	return Event{Object: pool, Warning: true, Reason: DisruptionBlocked, Every: 10 * time.Minute, Key: b.Until.String(), Message: b.Message()}
}

// Blocked tells the owners of a node and of its claim why the node stays. It does so if an owner has to act, if the machine is late, or if the
// pods have no cheaper place. No event is made for a node that is no candidate, for example a node with pods for the reason Empty.
func Blocked(node *corev1.Node, claim *v1.NodeClaim, reason engine.Reason) []Event {
	switch reason.Code {
	case engine.DoNotDisrupt, engine.NodePoolNotFound, engine.NoPoolLabel, engine.SeveralNodes, engine.EvictionBlocked,
		engine.CannotMove, engine.UnreadableAnnotation, engine.ReplacingHalted, engine.StaticSurplus:
	case engine.TooManyUnhealthy, engine.DoNotRepair, engine.RepairedElsewhere:
		return onBoth(node, claim, Event{Reason: NodeRepairBlocked, Warning: reason.Code == engine.TooManyUnhealthy, Message: "Cannot repair: " + reason.Message()})
	case engine.SavesTooLittle, engine.NoCheaperPlace, engine.WouldStrand, engine.OnDemandShareLost, engine.SpotToSpot, engine.OwnerMoved, engine.NotBalanced,
		engine.UnknownPrice, engine.UnknownInstanceType, engine.MissingLabel, engine.OnlyWhenEmpty, engine.ConsolidationDisabled:
		return onBoth(node, claim, Event{Reason: Unconsolidatable, Every: unconsolidatableEvery, Message: "Cannot consolidate: " + reason.Message(), Key: string(reason.Code)})
	case engine.MachineLate:
		return onBoth(node, claim, Event{Warning: true, Reason: MachineLate, Message: "Late: " + reason.Message()})
	default:
		return nil
	}
	return onBoth(node, claim, Event{Reason: DisruptionBlocked, Message: "Cannot disrupt: " + reason.Message(), Key: string(reason.Code)})
}

// unconsolidatableEvery is how long repeats are held back, because API servers keep events for an hour, and in a quiet cluster most nodes have one.
const unconsolidatableEvery = 50 * time.Minute

// onBoth returns the event for the node and the claim, as far as they exist. Repeats of the event are held back.
func onBoth(node *corev1.Node, claim *v1.NodeClaim, e Event) []Event {
	e.Every = cmp.Or(e.Every, 15*time.Minute)
	return onAll([]*corev1.Node{node}, []*v1.NodeClaim{claim}, e)
}

// DisruptionLine returns the log line of a disruption that has begun: the claims are marked.
func DisruptionLine(d engine.Disruption) []any {
	line := []any{
		"reason", strings.ToLower(string(d.Reason)), "nodes", some(d.Nodes), "NodeClaims", some(d.Claims),
		"pods", len(d.Pods), "saves-per-hour", engine.Dollars(d.SavingPerHour),
	}
	if len(d.Replacements) > 0 {
		line = append(line, "replacements", fmt.Sprint(len(d.Replacements)))
	}
	if d.TerminateFirst != "" {
		line = append(line, "terminate-first", string(d.TerminateFirst))
	}
	return line
}
