package simulator

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
)

// Result is the outcome of a world.
type Result struct {
	Setting string                 `json:"setting,omitempty"`
	Seed    uint64                 `json:"seed"`
	Profile string                 `json:"profile"`
	Policy  v1.ConsolidationPolicy `json:"policy,omitempty"`
	// Payback and ConsolidateAfter are the settings given to all NodePools; nil if each keeps its own.
	Payback          *metav1.Duration `json:"payback,omitempty"`
	ConsolidateAfter *metav1.Duration `json:"consolidateAfter,omitempty"`
	Begin            metav1.Time      `json:"begin"`
	Hours            []Hour           `json:"hours"`
	Counts           Counts           `json:"counts"`
	// Cost is the whole bill in USD. Bound is the integral of the bound over the time. Gap is the share by which the bill is above this
	// integral, AnewGap above the integral of new plans. They are below 0 if the bill is less.
	Cost    float64 `json:"cost"`
	Bound   float64 `json:"bound"`
	Gap     float64 `json:"gap"`
	AnewGap float64 `json:"anewGap"`
	// Causes divide Cost less Bound by cause, the largest part first.
	Causes []Cause `json:"causes"`
	// PodDays is the number of days that all pods ran together. EvictionsPerPodDay leaves out evictions from lost or interrupted
	// machines, AllEvictionsPerPodDay does not.
	PodDays               float64 `json:"podDays"`
	EvictionsPerPodDay    float64 `json:"evictionsPerPodDay"`
	AllEvictionsPerPodDay float64 `json:"allEvictionsPerPodDay"`
	// MostLost is the largest share of a workload's pods on machines of one type and zone that the cloud interrupted together.
	MostLost float64 `json:"mostLost"`
	// Waited is how long pods waited for a node, in seconds: the median, the 99th percentile, and the longest time.
	Waited Waited `json:"waited"`
	// AtEnd is the world when it ended.
	AtEnd AtEnd `json:"atEnd"`
	// LongestStay is the longest stay of a node whose removal paid back; only with Config.Audit.
	LongestStay Stay `json:"-"`
}

// Waited holds how long pods waited, in seconds.
type Waited struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Most   float64 `json:"most"`
}

// AtEnd is the state of a world at its end.
type AtEnd struct {
	Machines int `json:"machines"`
	Pods     int `json:"pods"`
	Waiting  int `json:"waiting"`
	// Idle counts pods that wait although a plan has found a place for them, for longer than a machine needs. Leaked counts machines
	// without a claim. Both should be 0.
	Idle   int `json:"idle"`
	Leaked int `json:"leaked"`
	// Kept counts the nodes that are not removed, by reason.
	Kept map[engine.Code]int `json:"kept"`
}

// result ends the measurement and returns the Result.
func (w *World) result(ctx context.Context) *Result {
	w.sampler.planning.Wait()
	for _, u := range w.cluster.unbound.list {
		w.meter.unserved(u)
	}
	r := w.meter.close()
	r.Setting, r.Seed, r.Profile, r.Policy = w.cfg.Setting, w.cfg.Seed, w.cfg.profile(), w.cfg.Policy
	if w.cfg.Payback > 0 {
		r.Payback = &metav1.Duration{Duration: w.cfg.Payback}
	}
	if after := w.cfg.ConsolidateAfter; after != nil {
		r.ConsolidateAfter = &metav1.Duration{Duration: *after}
	}
	causes, bound, anew := w.sampler.close()
	if r.Causes, r.Bound = causes, round(bound); bound > 0 {
		r.Gap, r.AnewGap = round(r.Cost/bound-1), round(r.Cost/anew-1)
	}
	r.AtEnd = w.atEnd(ctx)
	r.LongestStay = w.audit.longestStay
	return r
}

// settled is how long a pod may wait for a machine before it is treated as forgotten. It is longer than the slowest usual boot and a second attempt
// together.
const settled = 15 * time.Minute

// atEnd returns the state of the world at its end.
func (w *World) atEnd(ctx context.Context) AtEnd {
	s := w.cluster.snapshot(ctx)
	out := AtEnd{Machines: w.meter.machines, Pods: w.meter.pods, Waiting: len(w.cluster.unbound.list), Kept: map[engine.Code]int{}}
	for _, k := range w.passes.kept {
		out.Kept[k.Reason.Code]++
	}
	w.audit.noteStays()
	out.Idle = w.forgotten(s)
	for _, m := range w.markets.list {
		if m.cloud == nil {
			continue
		}
		for _, boot := range m.cloud.Boots() {
			if claim, ok := w.cluster.claims.get(boot.Claim); !boot.Leaving && (!ok || claim.Status.ProviderID != string(boot.ID)) {
				out.Leaked++
			}
		}
	}
	return out
}

// forgotten returns the number of pods that have waited longer than settled although a plan finds a place for them.
func (w *World) forgotten(s *engine.Snapshot) int {
	plan := provisioning.Plan(s, w.cfg.Options, nil)
	hopeless := map[engine.PodID]bool{}
	for _, u := range plan.Unplaced {
		hopeless[u.Pod] = true
	}
	n := 0
	for _, u := range w.cluster.unbound.list {
		id := engine.PodID{Namespace: u.pod.Namespace, Name: u.pod.Name, UID: u.pod.UID}
		if !hopeless[id] && w.agenda.now.Sub(u.pod.CreationTimestamp.Time) > settled {
			n++
		}
	}
	return n
}
