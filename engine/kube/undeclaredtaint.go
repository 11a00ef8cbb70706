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
	// StartupTaintMost is the time after a node became Ready within which it loses a taint that is learned as a startup taint.
	StartupTaintMost = 10 * time.Minute
	// UndeclaredTaintPatience is how long after a node became Ready its initialization waits for an undeclared taint that was not learned.
	UndeclaredTaintPatience = time.Minute
	// startupTaintMemory is how long a taint that was learned counts after a node was last seen to lose it.
	startupTaintMemory = 7 * 24 * time.Hour
	// mostStartupTaints bounds what is written on one pool, or on one claim.
	mostStartupTaints = 16
)

// IsUndeclared reports whether the taint keeps pods off the claim's node, is neither under taints nor under startupTaints of the claim, and is
// none that Kubernetes, Tenon or a well-known agent sets.
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

// SeenTaints are the undeclared taints that were noted on the claim. A taint that the node loses in time is learned.
func SeenTaints(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[v1.UndeclaredTaintsAnnotationKey]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// SeenTaintsText is the claim's annotation for these taints.
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

// LearnTaints is the pool's annotation after a node has lost some taints by itself and kept others for too long. A known taint's time is renewed
// once a day only, so that not every node causes a write. If nothing is new, it returns the present text.
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
