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

// A node agent that few people know may taint every new node until it runs there, and no pool declares that taint. Which taints are of this
// kind is learned from nodes that lose theirs by themselves, and is written on their pool.

const (
	// StartupTaintMost is within how long after it is ready a node loses a taint that counts as a startup taint.
	StartupTaintMost = 10 * time.Minute
	// UndeclaredTaintPatience is how long after it is ready a node is waited for that has a taint of which nothing has been learned: an agent
	// takes its own off, any other taint stays.
	UndeclaredTaintPatience = time.Minute
	// startupTaintMemory is how long a taint that was learned counts after a node was last seen to lose it.
	startupTaintMemory = 7 * 24 * time.Hour
	// mostStartupTaints bounds what is written on one pool, or on one claim.
	mostStartupTaints = 16
)

// IsUndeclared reports whether the taint keeps pods off the claim's node although the claim does not name it, and it is none of those whose
// meaning is known.
func IsUndeclared(claim *v1.NodeClaim, t corev1.Taint) bool {
	if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute || SaysState(t) || IsElsewhereTaint(t) || IsStartupTaint(claim, t) {
		return false
	}
	return !slices.ContainsFunc(claim.Spec.Taints, func(s v1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// UndeclaredTaints names the taints of the claim's node that are undeclared, sorted, as key:effect.
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

// SeenTaints are the undeclared taints that the claim's node has had, as long as it is not settled whether it loses them by itself.
func SeenTaints(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[v1.UndeclaredTaintsAnnotationKey]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// SeenTaintsText is what to write on the claim about them.
func SeenTaintsText(taints []string) string {
	return strings.Join(taints[:min(len(taints), mostStartupTaints)], ",")
}

// StartupTaint is one that nodes of a pool have lost by themselves.
type StartupTaint struct {
	Taint string    `json:"taint"` // key:effect
	Last  time.Time `json:"last"`
}

// LearnedTaints are those that are written on the pool and still count. It reports false if that cannot be read.
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
		return t.Taint == "" || age >= startupTaintMemory || age < -StartupTaintMost // a clock may be wrong, but not for ever
	}), true
}

// HasLearned reports whether nodes of the pool lose the taint by themselves. Without a pool nothing is known.
func HasLearned(pool *v1.NodePool, taint string, now time.Time) bool {
	if pool == nil {
		return false
	}
	list, _ := LearnedTaints(pool, now)
	return slices.ContainsFunc(list, func(t StartupTaint) bool { return t.Taint == taint })
}

// LearnTaints is the text to write on the pool once a node has lost some taints by itself, and others have stayed on it for too long. What is
// known is renewed once a day, so that not every node writes. It is the text that is there if nothing is new.
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
		panic(err) // it is made here
	}
	return string(text)
}
