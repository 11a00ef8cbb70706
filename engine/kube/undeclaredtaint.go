package kube

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// An uncommon node agent may taint every new node until it runs there, although no pool declares the taint. Tenon learns these taints from nodes
// that lose them without its action, and writes them on their pool.

const (
	// StartupTaintMost is the time after a node became Ready within which it loses a taint that is learned as a startup taint.
	StartupTaintMost = 10 * time.Minute
	// UndeclaredTaintPatience is the time from a node's readiness in which its initialization waits for a taint that was not learned.
	UndeclaredTaintPatience = time.Minute
	// startupTaintMemory is the time for which a learned taint is remembered after a node last lost it.
	startupTaintMemory = 7 * 24 * time.Hour
	// mostStartupTaints bounds the number of taints on a pool or a claim.
	mostStartupTaints = 16
)

// IsUndeclared reports whether the taint keeps pods off the claim's node, is neither in taints nor in startupTaints of the claim, and is not set
// by Kubernetes, Tenon, Cluster Autoscaler or a well-known agent.
func IsUndeclared(claim *v1.NodeClaim, t corev1.Taint) bool {
	if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute || SaysState(t) || IsElsewhereTaint(t) || IsStartupTaint(claim, t) {
		return false
	}
	return !slices.ContainsFunc(claim.Spec.Taints, func(s v1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// UndeclaredTaints lists the undeclared taints of the claim's node, sorted, as key:effect.
func UndeclaredTaints(claim *v1.NodeClaim, node *corev1.Node) []string {
	var out []string
	for _, t := range node.Spec.Taints {
		if IsUndeclared(claim, t) {
			out = append(out, t.Key+":"+string(t.Effect))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SeenTaints returns the undeclared taints that are noted on the claim. If the node loses one in time, the taint is learned.
func SeenTaints(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[v1.UndeclaredTaintsAnnotationKey]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// SeenTaintsText returns the claim's annotation for these taints.
func SeenTaintsText(taints []string) string {
	return strings.Join(taints[:min(len(taints), mostStartupTaints)], ",")
}

// StartupTaint is a taint that nodes of a pool lost without Tenon's action.
type StartupTaint struct {
	Taint string    `json:"taint"` // key:effect
	Last  time.Time `json:"last"`
}

// LearnedTaints returns the taints that are written on the pool and are not too old. ok is false if they cannot be read.
func LearnedTaints(pool *v1.NodePool, now time.Time) (list []StartupTaint, ok bool) {
	text := pool.Annotations[v1.LearnedTaintsAnnotationKey]
	if text == "" {
		return nil, true
	}
	var written []StartupTaint
	if json.Unmarshal([]byte(text), &written) != nil || len(written) > mostStartupTaints {
		return nil, false
	}
	return slices.DeleteFunc(written, func(t StartupTaint) bool {
		age := now.Sub(t.Last)
		return t.Taint == "" || age >= startupTaintMemory || age < -StartupTaintMost // a clock may be wrong by a few minutes
	}), true
}

// HasLearned reports whether the taint is learned for the pool; false without a pool.
func HasLearned(pool *v1.NodePool, taint string, now time.Time) bool {
	if pool == nil {
		return false
	}
	list, _ := LearnedTaints(pool, now)
	return slices.ContainsFunc(list, func(t StartupTaint) bool { return t.Taint == taint })
}

// LearnTaints returns the pool's annotation after a node lost some taints by itself and kept others for too long. A known taint's time is
// renewed only once a day, because not every node should cause a write. If nothing is new, it returns the present text.
func LearnTaints(pool *v1.NodePool, lost, stayed []string, now time.Time) string {
	before := pool.Annotations[v1.LearnedTaintsAnnotationKey]
	list, _ := LearnedTaints(pool, now)
	changed := false
	for _, taint := range lost {
		i := slices.IndexFunc(list, func(t StartupTaint) bool { return t.Taint == taint })
		if i < 0 {
			i, list = len(list), append(list, StartupTaint{Taint: taint})
		}
		if now.Sub(list[i].Last) >= 24*time.Hour {
			list[i].Last, changed = now.UTC().Truncate(time.Second), true
		}
	}
	kept := slices.DeleteFunc(list, func(t StartupTaint) bool { return slices.Contains(stayed, t.Taint) })
	if !changed && len(kept) == len(list) {
		return before
	}
	slices.SortFunc(kept, func(a, b StartupTaint) int { return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Taint, b.Taint)) })
	if kept = kept[:min(len(kept), mostStartupTaints)]; len(kept) == 0 {
		return ""
	}
	text, err := json.Marshal(kept)
	if err != nil {
		panic(err) // these types always marshal
	}
	return string(text)
}
