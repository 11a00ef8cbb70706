package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// A stage is one state that the demo waits for, in order.
type stage int

const (
	podsPending stage = iota
	claimed
	launched
	registered
	initialized
	podsRunning
	scaledDown
	nodeEmpty
	disrupted
	drained
	gone
	stages int = iota
)

// stageNames has the name of each stage.
var stageNames = [stages]string{
	"pods pending", "NodeClaim", "launched", "registered", "initialised", "pods running",
	"scaled to 0", "node empty", "disrupted", "drained", "gone",
}

// stageLimit is the time limit of a stage after the stage before it, without planned waits. A stage takes a few seconds normally; a busy
// machine may need many times that.
const stageLimit = time.Minute

// A journey follows the demo's pods and the machines that are started for them. Watches report every state in order, so a journey misses no
// condition that lasts only a short time. It records the first time of each stage.
type journey struct {
	replicas         int
	consolidateAfter time.Duration
	bootDelay        time.Duration

	reached [stages]time.Time
	pending map[types.UID]bool // pods that were seen to wait
	pods    map[types.UID]*corev1.Pod
	claims  map[string]*v1.NodeClaim // as last seen, even when gone
	nodes   map[string]*corev1.Node
	left    map[string]bool // claims and nodes that are gone, by kind and name
}

func newJourney(replicas int, consolidateAfter, bootDelay time.Duration) *journey {
	return &journey{
		replicas: replicas, consolidateAfter: consolidateAfter, bootDelay: bootDelay,
		pending: map[types.UID]bool{}, pods: map[types.UID]*corev1.Pod{},
		claims: map[string]*v1.NodeClaim{}, nodes: map[string]*corev1.Node{}, left: map[string]bool{},
	}
}

// limit returns the time limit of a stage after the stage before it.
func (j *journey) limit(s stage) time.Duration {
	switch s {
	case disrupted:
		return stageLimit + j.consolidateAfter
	case registered:
		return stageLimit + j.bootDelay
	}
	return stageLimit
}

// see processes one object from a watch; deleted means that the object is gone.
func (j *journey) see(object any, deleted bool, now time.Time) {
	switch o := object.(type) {
	case *corev1.Pod:
		if o.Spec.NodeName == "" {
			j.pending[o.UID] = true
		}
		if j.pods[o.UID] = o; deleted {
			delete(j.pods, o.UID)
		}
	case *v1.NodeClaim:
		j.claims[o.Name] = o
		j.left["claim/"+o.Name] = deleted
	case *corev1.Node:
		j.nodes[o.Name] = o
		j.left["node/"+o.Name] = deleted
	}
	j.note(now)
}

// scaled records that the Deployment has been scaled to 0.
func (j *journey) scaled(now time.Time) {
	j.reached[scaledDown] = now
	j.note(now)
}

// note sets the time of every stage that is newly reached.
func (j *journey) note(now time.Time) {
	for s := range stage(stages) {
		if j.reached[s].IsZero() && j.isReached(s) {
			j.reached[s] = now
		}
	}
}

func (j *journey) isReached(s stage) bool {
	switch s {
	case podsPending:
		return len(j.pending) >= j.replicas
	case claimed:
		return j.allPlanned()
	case launched:
		return j.allPlanned() && j.allClaims(v1.ConditionLaunched)
	case registered:
		return j.allPlanned() && j.allClaims(v1.ConditionRegistered)
	case initialized:
		return j.allPlanned() && j.allClaims(v1.ConditionInitialized)
	case podsRunning:
		return j.running() >= j.replicas
	case scaledDown:
		return false // only the demo knows; see scaled
	case nodeEmpty:
		return !j.reached[scaledDown].IsZero() && len(j.pods) == 0
	case disrupted:
		return !j.reached[scaledDown].IsZero() && j.allClaims(v1.ConditionDisruptionReason)
	case drained:
		return !j.reached[scaledDown].IsZero() && j.allClaims(v1.ConditionDrained)
	case gone:
		return !j.reached[scaledDown].IsZero() && j.allGone()
	}
	return false
}

// allPlanned reports whether each pod that was seen to wait has a claim. There may be several claims, and they are written one after another.
func (j *journey) allPlanned() bool {
	planned := map[types.UID]bool{}
	for _, claim := range j.claims {
		for _, uid := range kube.PlannedPods(claim) {
			planned[types.UID(uid)] = true
		}
	}
	for uid := range j.pending {
		if !planned[uid] {
			return false
		}
	}
	return len(j.pending) >= j.replicas
}

// allClaims reports whether there are claims and all have the condition. A claim that is gone keeps its last conditions.
func (j *journey) allClaims(condition string) bool {
	for _, claim := range j.claims {
		if !v1.IsTrue(claim, condition) {
			return false
		}
	}
	return len(j.claims) > 0
}

func (j *journey) allGone() bool {
	for name := range j.claims {
		if !j.left["claim/"+name] {
			return false
		}
	}
	for name := range j.nodes {
		if !j.left["node/"+name] {
			return false
		}
	}
	return len(j.claims) > 0
}

func (j *journey) running() int {
	n := 0
	for _, pod := range j.pods {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// lastSeen describes the last state of each object, for a stage that was not reached.
func (j *journey) lastSeen() []string {
	var lines []string
	for _, pod := range j.pods {
		line := fmt.Sprintf("pod %s: %s", pod.Name, pod.Status.Phase)
		if pod.Spec.NodeName != "" {
			line += " on " + pod.Spec.NodeName
		}
		for _, c := range pod.Status.Conditions {
			if c.Status != corev1.ConditionTrue && c.Message != "" {
				line += ", " + c.Message
			}
		}
		lines = append(lines, line)
	}
	for name, claim := range j.claims {
		lines = append(lines, j.describe("NodeClaim", name, j.left["claim/"+name], conditionsOf(claim)))
	}
	for name, node := range j.nodes {
		var taints []string
		for _, taint := range node.Spec.Taints {
			taints = append(taints, "taint "+taint.ToString())
		}
		lines = append(lines, j.describe("node", name, j.left["node/"+name], strings.Join(taints, ", ")))
	}
	slices.Sort(lines)
	return lines
}

func (j *journey) describe(kind, name string, gone bool, what string) string {
	if gone {
		return fmt.Sprintf("%s %s: gone", kind, name)
	}
	return fmt.Sprintf("%s %s: %s", kind, name, cmp.Or(what, "nothing special"))
}

func conditionsOf(claim *v1.NodeClaim) string {
	var words []string
	for _, c := range claim.Status.Conditions {
		word := c.Type + "=" + string(c.Status)
		if c.Status != "True" && c.Message != "" {
			word += " (" + c.Message + ")"
		}
		words = append(words, word)
	}
	if claim.DeletionTimestamp != nil {
		words = append(words, "being deleted")
	}
	return strings.Join(words, ", ")
}
