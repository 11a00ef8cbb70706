package scenariotest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// LostAtOnce returns two numbers for each owner of pods, after the plan is complete. most is the largest number of its pods on spot machines
// that may all be of one type in one zone. total is the number of its pods with a place.
func LostAtOnce(s *engine.Snapshot, plan *engine.Plan) (most, total map[string]int) {
	at, total, most := map[[3]string]int{}, map[string]int{}, map[string]int{}
	owner := map[engine.PodID]string{}
	nodes := map[string]map[string]string{} // labels of nodes, or of the claim if the node is not registered
	for _, n := range s.Nodes {
		nodes[n.Name] = n.Labels
	}
	for _, c := range s.NodeClaims {
		if name := cmp.Or(c.Status.NodeName, c.Name); nodes[name][v1.RegisteredLabelKey] != "true" {
			nodes[name] = c.Labels
		}
	}
	add := func(name, kind, zone string) {
		at[[3]string{name, kind, zone}]++
		most[name] = max(most[name], at[[3]string{name, kind, zone}])
	}
	runs := func(name, node string) {
		total[name]++
		if n := nodes[node]; n[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot {
			add(name, n[corev1.LabelInstanceTypeStable], n[corev1.LabelTopologyZone])
		}
	}
	for _, pod := range s.Pods {
		c := metav1.GetControllerOf(pod)
		if c == nil {
			continue
		}
		owner[engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}] = c.Kind + " " + pod.Namespace + "/" + c.Name
		if n := nodes[pod.Spec.NodeName]; n != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
			runs(c.Kind+" "+pod.Namespace+"/"+c.Name, pod.Spec.NodeName)
		}
	}
	for _, p := range plan.Placements {
		if name := owner[p.Pod]; name != "" {
			runs(name, p.Node)
		}
	}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			if owner[id] == "" {
				continue
			}
			total[owner[id]]++
			for _, o := range l.Offerings {
				if o.CapacityType == v1.CapacityTypeSpot {
					add(owner[id], o.InstanceType, o.Zone)
				}
			}
		}
	}
	return most, total
}

// Sharing returns the snapshot with its pods in a few ReplicaSets, most of which request a share on demand, and with every second machine a
// spot machine. shares computes each ReplicaSet's requested number of pods on demand. It is 0 if the annotation is absent or invalid.
func Sharing(seed uint64, s *engine.Snapshot) (out *engine.Snapshot, shares map[string]func(pods int) int) {
	clone := *s
	clone.Pods, clone.Nodes, clone.NodeClaims = nil, nil, nil
	texts := []string{"30%", "1", "50%", "100%", "3", "none", ""}
	shares = map[string]func(int) int{}
	percent := func(n int) func(int) int { return func(pods int) int { return (pods*n + 99) / 100 } }
	for i, pod := range s.Pods {
		group := i % 5
		if j := strings.IndexByte(pod.Name, '-'); pod.Name[0] == 'g' {
			fmt.Sscanf(pod.Name[1:j], "%d", &group)
		}
		if pod = pod.DeepCopy(); !kube.OwnedByDaemonSet(pod) {
			name := fmt.Sprintf("set-%d", group)
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "set", Controller: new(true)}}
			which := (int(seed) + group) % len(texts)
			if texts[which] != "" {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.OnDemandShareAnnotationKey, texts[which])
			}
			shares[name] = []func(int) int{percent(30), func(n int) int { return min(n, 1) }, percent(50), percent(100), func(n int) int { return min(n, 3) }, percent(0), percent(0)}[which]
		}
		clone.Pods = append(clone.Pods, pod)
	}
	spot := map[string]bool{}
	for i, c := range s.NodeClaims {
		if c = c.DeepCopy(); i%2 == int(seed%2) && soldAsSpot(s, c) {
			c.Labels[v1.CapacityTypeLabelKey], spot[c.Name] = v1.CapacityTypeSpot, true
		}
		clone.NodeClaims = append(clone.NodeClaims, c)
	}
	for _, n := range s.Nodes {
		if n = n.DeepCopy(); spot[n.Name] && n.Labels[v1.CapacityTypeLabelKey] != "" {
			n.Labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeSpot
		}
		clone.Nodes = append(clone.Nodes, n)
	}
	return &clone, shares
}

// soldAsSpot reports whether the claim's machine may be a spot machine.
func soldAsSpot(s *engine.Snapshot, c *v1.NodeClaim) bool {
	id := engine.OfferingID{InstanceType: c.Labels[corev1.LabelInstanceTypeStable], Zone: c.Labels[corev1.LabelTopologyZone], CapacityType: v1.CapacityTypeSpot}
	return slices.ContainsFunc(s.Classes, func(class engine.Class) bool {
		return slices.ContainsFunc(class.InstanceTypes, func(t engine.InstanceType) bool { return t.Name == id.InstanceType && t.Find(id) != nil })
	})
}
