package scenario

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/kube"
)

// rangeRefusal names the LimitRange that refuses the pod. It returns "" if none does.
func (m *manifest) rangeRefusal(p *corev1.Pod) string {
	for _, l := range m.snapshot.LimitRanges {
		if l.Namespace != p.Namespace {
			continue
		}
		for i := range l.Spec.Limits {
			item := &l.Spec.Limits[i]
			switch item.Type {
			case corev1.LimitTypePod:
				if why := outOfRange(item, kube.PodNeeds(p)); why != "" {
					return fmt.Sprintf("LimitRange %s: a pod %s", l.Name, why)
				}
			case corev1.LimitTypeContainer:
				for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
					if why := outOfRange(item, c.Resources); why != "" {
						return fmt.Sprintf("LimitRange %s: a container %s", l.Name, why)
					}
				}
			}
		}
	}
	return ""
}

// outOfRange returns the first violation of a limit. It returns "" if there is none.
func outOfRange(item *corev1.LimitRangeItem, needs corev1.ResourceRequirements) string {
	for _, name := range sortedNames(item.Min) {
		least := item.Min[name]
		for _, of := range []struct {
			what  string
			list  corev1.ResourceList
			given bool // the value is mandatory
		}{{"request", needs.Requests, true}, {"limit", needs.Limits, false}} {
			if n, ok := of.list[name]; of.given && !ok || ok && n.Cmp(least) < 0 {
				return fmt.Sprintf("must have a %s of at least %s %s, and it is %s", of.what, least.String(), name, orNone(n, ok))
			}
		}
	}
	for _, name := range sortedNames(item.Max) {
		most := item.Max[name]
		if n, ok := needs.Limits[name]; !ok || n.Cmp(most) > 0 {
			return fmt.Sprintf("must have a limit of at most %s %s, and it is %s", most.String(), name, orNone(n, ok))
		}
		if n := needs.Requests[name]; n.Cmp(most) > 0 {
			return fmt.Sprintf("may request at most %s %s, and it is %s", most.String(), name, n.String())
		}
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		ratio := item.MaxLimitRequestRatio[name]
		request, limit := needs.Requests[name], needs.Limits[name]
		r, l := request.AsApproximateFloat64(), limit.AsApproximateFloat64()
		if r == 0 || l == 0 || l/r > ratio.AsApproximateFloat64()*(1+1e-9) {
			return fmt.Sprintf("must have a limit of %s that is at most %s times its request, and it is %s for %s", name, ratio.String(), limit.String(), request.String())
		}
	}
	return ""
}

func orNone(n resource.Quantity, ok bool) string {
	if !ok {
		return "not given"
	}
	return n.String()
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
