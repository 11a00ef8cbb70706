package provision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// takeTurns exchanges equal pods between launches, because kube-scheduler tries them in a certain order. Pods that have to
// be spread over zones find their planned nodes only if it comes to the zones in turn: the second one may not go to a
// zone before the first ones are in the others. Of all other pods, those that are tried one after the other are to go to
// the same machines, which then open one after the other.
func takeTurns(launches []engine.Launch, pods map[types.UID]*corev1.Pod) {
	parties := map[string][]*corev1.Pod{}
	places := map[string][]place{}
	for i := range launches {
		launches[i].Pods = slices.Clone(launches[i].Pods)
		for j, id := range launches[i].Pods {
			if pod := pods[id.UID]; pod != nil {
				if key := replicaOf(pod); key != "" {
					parties[key] = append(parties[key], pod)
					places[key] = append(places[key], place{i, j, launches[i].Offerings[0].Zone})
				}
			}
		}
	}
	for key, party := range parties {
		slices.SortFunc(party, triedBefore)
		if isSpread(party[0]) {
			places[key] = inTurn(places[key])
		}
		for i, p := range places[key] {
			launches[p.launch].Pods[p.index] = engine.PodID{Namespace: party[i].Namespace, Name: party[i].Name, UID: party[i].UID}
		}
	}
}

func isSpread(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey == corev1.LabelTopologyZone
	})
}

// place is where a launch lists a pod.
type place struct {
	launch, index int
	zone          string
}

// replicaOf is the same for pods of which one is as good as another, "" for a pod that has no equals.
func replicaOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return ""
	}
	key := string(owner.UID)
	requests := engine.PodRequests(pod) // which an admission webhook may have made different
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		key += fmt.Sprintf(" %s=%s", name, q.String())
	}
	return key
}

// inTurn orders places so that the zones take turns, those with more places first.
func inTurn(places []place) []place {
	byZone := map[string][]place{}
	for _, p := range places {
		byZone[p.zone] = append(byZone[p.zone], p)
	}
	zones := slices.Sorted(maps.Keys(byZone))
	out := make([]place, 0, len(places))
	for range places {
		zone := slices.MaxFunc(zones, func(a, b string) int { return cmp.Compare(len(byZone[a]), len(byZone[b])) })
		out = append(out, byZone[zone][0])
		byZone[zone] = byZone[zone][1:]
	}
	return out
}

// triedBefore orders pods as kube-scheduler tried them, which is how it will try them again: it writes down each time that
// it finds no node.
func triedBefore(a, b *corev1.Pod) int {
	x, _ := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, _ := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(string(a.UID), string(b.UID)))
}
