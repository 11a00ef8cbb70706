package report

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Terminating tells the owners of a node and of its claim that both are removed, and why.
func Terminating(node *corev1.Node, claim *v1.NodeClaim, reason v1.DisruptionReason) []Event {
	message := "Disrupting: " + string(reason)
	events := []Event{{Object: claim, Reason: DisruptionTerminating, Message: message, Key: string(reason)}}
	if node != nil {
		events = append(events, Event{Object: node, Reason: DisruptionTerminating, Message: message, Key: string(reason)})
	}
	return events
}

// Launching tells the owner of a claim that it is to replace others, and why.
func Launching(claim *v1.NodeClaim, reason v1.DisruptionReason) Event {
	return Event{Object: claim, Reason: DisruptionLaunching, Message: "Launching NodeClaim: " + string(reason), Key: string(reason)}
}

// WaitingReadiness tells the owner of a claim that others go once it is ready.
func WaitingReadiness(claim *v1.NodeClaim) Event {
	return Event{Object: claim, Reason: DisruptionWaitingReadiness, Message: "Waiting on readiness to continue disruption"}
}

// TakenBack tells the owners of a node and of its claim that both stay after all, though they were about to be replaced.
func TakenBack(node *corev1.Node, claim *v1.NodeClaim, why engine.Reason) []Event {
	message := "Took the disruption back, the node stays: " + why.Message()
	events := []Event{{Object: claim, Reason: DisruptionBlocked, Message: message, Key: string(why.Code)}}
	if node != nil {
		events = append(events, Event{Object: node, Reason: DisruptionBlocked, Message: message, Key: string(why.Code)})
	}
	return events
}

// Interrupted tells the owners of a node and of its claim what the cloud has announced, and whether the machine is left.
func Interrupted(node *corev1.Node, claim *v1.NodeClaim, x engine.Interruption) []Event {
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

// BudgetExhausted tells a pool's owner that its budgets keep a node from being removed.
func BudgetExhausted(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{
		Object: pool, Reason: DisruptionBlocked, Every: 10 * time.Minute, Key: reason.Have,
		Message: "No allowed disruptions: " + reason.Message(),
	}
}

// BackedOff tells a pool's owner that nodes are not replaced because replacements failed.
func BackedOff(pool *v1.NodePool, b engine.Backoff) Event {
	return Event{Object: pool, Warning: true, Reason: DisruptionBlocked, Every: 10 * time.Minute, Key: b.Until.String(), Message: b.Message()}
}

// Blocked tells the owners of a node and of its claim what keeps the node: what somebody has to act on, that its machine is late,
// and why its pods are not to be had for less. That a node is not what was looked for, as one with pods for emptiness, makes no
// event.
func Blocked(node *corev1.Node, claim *v1.NodeClaim, reason engine.Reason) []Event {
	switch reason.Code {
	case engine.DoNotDisrupt, engine.NodePoolNotFound, engine.NoPoolLabel, engine.SeveralNodes, engine.EvictionBlocked,
		engine.CannotMove, engine.UnreadableAnnotation, engine.ReplacingHalted, engine.StaticSurplus, engine.NoDrainBound:
	case engine.TooManyUnhealthy, engine.DoNotRepair:
		return onBoth(node, claim, Event{Reason: NodeRepairBlocked, Message: "Cannot repair: " + reason.Message()})
	case engine.SavesTooLittle, engine.NoCheaperPlace, engine.WouldStrand, engine.SpotToSpot, engine.OwnerMoved, engine.NotBalanced,
		engine.UnknownPrice, engine.UnknownInstanceType, engine.MissingLabel, engine.OnlyWhenEmpty, engine.ConsolidationDisabled:
		return onBoth(node, claim, Event{Reason: Unconsolidatable, Message: "Cannot consolidate: " + reason.Message(), Key: string(reason.Code)})
	case engine.MachineLate:
		return onBoth(node, claim, Event{Warning: true, Reason: MachineLate, Message: "Late: " + reason.Message()})
	default:
		return nil
	}
	return onBoth(node, claim, Event{Reason: DisruptionBlocked, Message: "Cannot disrupt: " + reason.Message()})
}

// onBoth is the event on the node and on the claim, as far as they are there.
func onBoth(node *corev1.Node, claim *v1.NodeClaim, e Event) []Event {
	e.Every = 15 * time.Minute
	var events []Event
	if node != nil {
		e.Object = node
		events = append(events, e)
	}
	if claim != nil {
		e.Object = claim
		events = append(events, e)
	}
	return events
}

// DisruptionLine is the log line of a disruption that begins.
func DisruptionLine(d engine.Disruption) []any {
	line := []any{
		"reason", strings.ToLower(string(d.Reason)), "nodes", some(d.Nodes), "NodeClaims", some(d.Claims),
		"pods", len(d.Pods), "saves-per-hour", engine.Dollars(d.SavingPerHour),
	}
	if len(d.Replacements) > 0 {
		line = append(line, "replacements", fmt.Sprint(len(d.Replacements)))
	}
	return line
}
