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
	return []Event{
		{Object: node, Reason: DisruptionTerminating, Message: message, Key: string(reason)},
		{Object: claim, Reason: DisruptionTerminating, Message: message, Key: string(reason)},
	}
}

// BudgetExhausted tells a pool's owner that its budgets keep a node from being removed.
func BudgetExhausted(pool *v1.NodePool, reason engine.Reason) Event {
	return Event{
		Object: pool, Reason: DisruptionBlocked, Every: 10 * time.Minute, Key: reason.Have,
		Message: "No allowed disruptions: " + reason.Message(),
	}
}

// Blocked tells the owners of a node and of its claim what keeps the node. Only reasons that somebody has to act on
// make an event; that a node is in use does not.
func Blocked(node *corev1.Node, claim *v1.NodeClaim, reason engine.Reason) []Event {
	switch reason.Code {
	case engine.DoNotDisrupt, engine.NodePoolNotFound, engine.SeveralNodes, engine.EvictionBlocked:
	default:
		return nil
	}
	var events []Event
	message := "Cannot disrupt: " + reason.Message()
	if node != nil {
		events = append(events, Event{Object: node, Reason: DisruptionBlocked, Message: message, Every: 15 * time.Minute})
	}
	if claim != nil {
		events = append(events, Event{Object: claim, Reason: DisruptionBlocked, Message: message, Every: 15 * time.Minute})
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
