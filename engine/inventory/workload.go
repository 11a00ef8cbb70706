package inventory

import (
	"slices"
	"time"

	"tenon.sh/engine/kube"
)

// OwnerInfo holds the facts about an owner's pods that the engine needs often.
type OwnerInfo struct {
	Name  string
	Infos []*PodInfo
	podSet
	start     time.Duration // median of the pods, below zero for none; known once startRead
	startRead bool
}

// Active returns the number of the owner's pods that have not ended, or begun to end.
func (o *OwnerInfo) Active() int {
	n := 0
	for _, info := range o.Infos {
		if kube.IsActive(info.Pod) {
			n++
		}
	}
	return n
}

// First returns when the first of the pods was created.
func (o *OwnerInfo) First() time.Time {
	at := o.Infos[0].Pod.CreationTimestamp.Time
	for _, info := range o.Infos {
		if t := info.Pod.CreationTimestamp.Time; t.Before(at) {
			at = t
		}
	}
	return at
}

// startTime returns how long the pods take from being bound to being ready: the median over those that run, below zero if that is not known.
func (o *OwnerInfo) startTime() time.Duration {
	if o.startRead {
		return o.start
	}
	o.start, o.startRead = -1, true
	var took []time.Duration
	for _, info := range o.Infos {
		if t := info.startTime(); info.node != nil && t >= 0 {
			took = append(took, t)
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		o.start = took[len(took)/2]
	}
	return o.start
}
