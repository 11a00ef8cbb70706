package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/requirement"
)

// wideSelector is the largest number of a selector's namespaces for which it is indexed by namespace.
const wideSelector = 8

// SelectorIndex finds the selectors that match a pod without trying all: most require a value of some label, and are indexed by it.
type SelectorIndex struct {
	selectors []*PodSelector
	byLabel   map[string]map[labelValue][]int32 // by the label's key
	// others require no value of a label; they are tried for every pod, or for every pod of one namespace.
	others map[string][]int32
}

// labelValue is the value of a label in a namespace; the empty namespace means all.
type labelValue struct{ namespace, value string }

func NewSelectorIndex(selectors []*PodSelector) *SelectorIndex {
	x := &SelectorIndex{selectors: selectors, byLabel: map[string]map[labelValue][]int32{}, others: map[string][]int32{}}
	common := map[[2]string]int{} // by key and value
	for _, s := range selectors {
		for _, e := range s.Rules {
			if e.Op != requirement.In {
				continue
			}
			for _, v := range e.Values {
				common[[2]string{e.Key, v}]++
			}
		}
	}
	for i, s := range selectors {
		if !s.Nothing {
			x.add(int32(i), s, common)
		}
	}
	return x
}

// add indexes the selector by the values of its least common label, because then fewer selectors are tried that do not match.
func (x *SelectorIndex) add(i int32, s *PodSelector, common map[[2]string]int) {
	namespaces := s.namespaces
	if s.anywhere || len(namespaces) > wideSelector {
		namespaces = []string{""}
	}
	var rarest *requirement.Expression
	least := 0
	for j := range s.Rules {
		e := &s.Rules[j]
		if e.Op != requirement.In {
			continue
		}
		n := 0
		for _, v := range e.Values {
			n += common[[2]string{e.Key, v}]
		}
		if rarest == nil || n < least {
			rarest, least = e, n
		}
	}
	for _, namespace := range namespaces {
		if rarest == nil {
			x.others[namespace] = append(x.others[namespace], i)
			continue
		}
		values := x.byLabel[rarest.Key]
		if values == nil {
			values = map[labelValue][]int32{}
			x.byLabel[rarest.Key] = values
		}
		for _, v := range rarest.Values {
			at := labelValue{namespace, v}
			values[at] = append(values[at], i)
		}
	}
}

// Match appends the indexes of all selectors that match the pod, in ascending order.
func (x *SelectorIndex) Match(pod *corev1.Pod, into []int) []int {
	start := len(into)
	try := func(places []int32) {
		for _, i := range places {
			if x.selectors[i].Matches(pod.Namespace, pod.Labels) {
				into = append(into, int(i))
			}
		}
	}
	// A pod has one value of a label, so no selector is found twice.
	if len(x.byLabel) > 0 {
		for key, value := range pod.Labels {
			values := x.byLabel[key]
			if values == nil {
				continue
			}
			try(values[labelValue{"", value}])
			if pod.Namespace != "" {
				try(values[labelValue{pod.Namespace, value}])
			}
		}
	}
	try(x.others[""])
	if pod.Namespace != "" {
		try(x.others[pod.Namespace])
	}
	slices.Sort(into[start:])
	return into
}
