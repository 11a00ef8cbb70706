package doctor

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/explain"
	"tenon.sh/provider"
)

// classes finds node classes that cannot be used.
func classes(p *Picture) []provider.Finding {
	l := list{check: "nodeclass"}
	for _, c := range p.Classes {
		object := c.Ref.Kind + " " + c.Ref.Name
		conditioned, ok := c.Object.(v1.Conditioned)
		if !ok {
			continue
		}
		switch ready := v1.GetCondition(conditioned, v1.ConditionReady); {
		case c.Object.GetDeletionTimestamp() != nil:
			l.warning(object, "it is being deleted, and waits until no NodeClaim refers to it", "kubectl get nodeclaims")
		case ready == nil || ready.Status == metav1.ConditionUnknown:
			l.warning(object, "nobody has looked yet whether it can be used", "see whether the controller runs")
		case ready.Status == metav1.ConditionFalse:
			l.problem(object, "it is not ready: "+unready(conditioned, ready), "kubectl describe "+strings.ToLower(c.Ref.Kind)+" "+c.Ref.Name)
		}
	}
	return l.or(fmt.Sprintf("%d ready", len(p.Classes)))
}

func unready(c v1.Conditioned, ready *metav1.Condition) string {
	var parts []string
	for _, x := range c.GetConditions() {
		if x.Type != v1.ConditionReady && x.Status == metav1.ConditionFalse {
			parts = append(parts, x.Type+": "+x.Message)
		}
	}
	if len(parts) == 0 {
		return ready.Message
	}
	return strings.Join(parts, "; ")
}

// pools finds pools that can never launch a machine. The reasons are the engine's texts.
func pools(p *Picture) []provider.Finding {
	l := list{check: "nodepool"}
	if p.Snapshot == nil {
		return nil
	}
	for _, pool := range p.Snapshot.NodePools {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Group == "eks.amazonaws.com" {
			continue // a pool of Auto Mode
		}
		l.pool(p, pool, explain.ExplainPool(p.Snapshot, p.plan, nil, pool))
	}
	if len(p.Snapshot.NodePools) == 0 {
		l.warning("", "there is no NodePool: no machine is ever started", "make one: see examples/")
	}
	return l.or(count(len(p.Snapshot.NodePools), "pool") + " can launch")
}

func (l *list) pool(p *Picture, pool *v1.NodePool, story explain.PoolExplanation) {
	object := "NodePool " + pool.Name
	explain := "tenon explain nodepool " + pool.Name
	limited := zeroLimit(pool)
	switch err := pool.RuntimeValidate(); {
	case err != nil:
		l.problem(object, "it cannot be used: "+err.Error(), "correct it: kubectl edit nodepool "+pool.Name)
	case pool.DeletionTimestamp != nil:
		l.warning(object, "it is being deleted", "")
	case story.Retired:
		l.warning(object, "it is retired, and starts no machine any more", "delete it once it has no node, or take the annotation away")
	case pool.Spec.Replicas != nil:
	case story.Problem != "":
		l.problem(object, "it cannot be used: "+story.Problem, explain)
	case limited != "":
		l.warning(object, "its limit of "+limited+" is 0, so that it never launches a machine", "raise it if that is not meant")
	case story.InstanceTypes == 0 && len(story.SoldOut) > 0:
		l.warning(object, "everything that its requirements allow is sold out now: "+some(story.SoldOut, 3), "allow more instance types, zones or capacity types")
	case story.InstanceTypes == 0:
		says := "no instance type of its class meets its requirements: " + requirements(pool)
		if len(story.Notes) > 0 { // the engine's notes name the requirement
			says, story.Notes = strings.Join(story.Notes, "; "), nil
		}
		l.problem(object, says, explain+"; loosen the requirement that excludes all")
	}
	for _, b := range story.Budgets {
		if b.Problem != "" {
			l.problem(object, "a disruption budget cannot be read, so that nothing is disrupted: "+b.Problem, "correct spec.disruption.budgets")
		}
	}
	for _, note := range append(story.Notes, p.Notes[pool.Name]...) {
		l.warning(object, note, "")
	}
	if c := v1.GetCondition(pool, v1.ConditionNodeRegistrationHealthy); c != nil && c.Status == metav1.ConditionFalse {
		l.problem(object, "its machines do not join the cluster: "+c.Message, "look at the system log of a machine that did not join: its role, network and user data")
	}
	if c := v1.GetCondition(pool, v1.ConditionReplacementsFailing); c != nil && c.Status == metav1.ConditionTrue {
		l.warning(object, "replacing its nodes is halted: "+c.Message, explain)
	}
	if c := v1.GetCondition(pool, v1.ConditionLaunchesBackedOff); c != nil && c.Status == metav1.ConditionTrue {
		l.warning(object, "its machines do not take the pods they are started for: "+c.Message, "mend what the machines are, or have the pool say it; either lets them be tried at once")
	}
}

func zeroLimit(pool *v1.NodePool) string {
	var zero []string
	for name, q := range pool.Spec.Limits {
		if q.IsZero() {
			zero = append(zero, string(name))
		}
	}
	return strings.Join(zero, ", ")
}

func requirements(pool *v1.NodePool) string {
	var out []string
	for _, r := range pool.Spec.Template.Spec.Requirements {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
	}
	return some(out, 4)
}
