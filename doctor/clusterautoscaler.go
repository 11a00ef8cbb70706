package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider"
)

// Cluster Autoscaler writes the time of its last pass in the annotation of a ConfigMap.
const (
	AutoscalerStatusNamespace = "kube-system"
	AutoscalerStatusName      = "cluster-autoscaler-status"
	lastUpdated               = "cluster-autoscaler.kubernetes.io/last-updated"
	lastUpdatedLayout         = "2006-01-02 15:04:05.999999999 -0700 MST"
)

const (
	autoscalerSilence = 5 * time.Minute  // it makes a pass every 10 seconds and then writes the ConfigMap
	removalPatience   = 30 * time.Minute // it drains for at most 10 minutes by default
	guide             = "see docs/guide/cluster-autoscaler.md"
)

// clusterAutoscaler checks a Cluster Autoscaler in the same cluster.
func clusterAutoscaler(p *Picture) []provider.Finding {
	l := list{check: "cluster-autoscaler"}
	if p.Snapshot == nil {
		return nil
	}
	running := ClusterAutoscalers(p.Deployments)
	l.autoscalerDown(p, running)
	l.removalsElsewhere(p)
	l.unreadAnnotations(p.Snapshot)
	if len(running) == 0 && p.AutoscalerStatus == nil && !slices.ContainsFunc(p.Snapshot.Nodes, tainted) {
		return l.findings
	}
	groups := explain.OtherGroups(p.Snapshot)
	l.overlaps(p, groups)
	if len(groups) == 0 {
		for _, d := range running {
			l.warning(named(d), "cluster-autoscaler runs beside: both start machines for the same pods",
				"scale it to 0 once its node groups are not needed, or keep its pods apart by taints: kubectl -n "+d.Namespace+" scale deployment "+d.Name+" --replicas=0")
		}
	}
	return l.or("it runs beside, and no pod that is there is for both")
}

func tainted(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, kube.IsElsewhereTaint) }

// autoscalerDown reports that Cluster Autoscaler is installed but does not run.
func (l *list) autoscalerDown(p *Picture, running []*appsv1.Deployment) {
	const means = ": its node groups neither grow nor shrink, and pods that are for them alone wait"
	for _, d := range running {
		if d.Status.ReadyReplicas == 0 {
			l.warning(named(d), "none of its pods is ready"+means, "kubectl -n "+d.Namespace+" logs deployment/"+d.Name)
			return
		}
	}
	if p.AutoscalerStatus == nil {
		return
	}
	at, err := time.Parse(lastUpdatedLayout, p.AutoscalerStatus.Annotations[lastUpdated])
	if err == nil && p.Now.Sub(at) > autoscalerSilence {
		l.warning("ConfigMap "+AutoscalerStatusNamespace+"/"+AutoscalerStatusName, "Cluster Autoscaler has not written it since "+engine.ClockText(at)+means,
			"start it again, or delete the ConfigMap if it is gone for good")
	}
}

// removalsElsewhere finds nodes of NodeClaims that Cluster Autoscaler removes, and nodes whose removal by it does not end.
func (l *list) removalsElsewhere(p *Picture) {
	claims := map[string]*v1.NodeClaim{}
	for _, c := range p.Snapshot.NodeClaims {
		claims[c.Status.ProviderID] = c
	}
	for _, n := range kube.ByName(p.Snapshot.Nodes) {
		if c := claims[n.Spec.ProviderID]; n.Spec.ProviderID != "" && c != nil && tainted(n) {
			l.problem("Node "+n.Name, "it is of NodeClaim "+c.Name+", and Cluster Autoscaler removes it: both look after the same machine",
				"take the machines of the pool out of its node groups (tags, --nodes, size annotations)")
			continue
		}
		since := kube.RemovedElsewhereSince(n)
		if !since.IsZero() && p.Now.Sub(since) > removalPatience {
			l.warning("Node "+n.Name, "Cluster Autoscaler has been removing it since "+engine.ClockText(since)+", and it is still there: no pod is planned onto it",
				"start Cluster Autoscaler, which takes the taint off, or: kubectl taint node "+n.Name+" "+kube.RemovedElsewhereTaint+"-")
		}
	}
}

// unreadAnnotations finds pods and nodes of pools that are protected only from Cluster Autoscaler.
func (l *list) unreadAnnotations(s *engine.Snapshot) {
	own := map[string]bool{}
	var nodes, pods []string
	for _, n := range kube.ByName(s.Nodes) {
		if n.Labels[v1.NodePoolLabelKey] == "" {
			continue
		}
		own[n.Name] = true
		if n.Annotations[kube.ScaleDownDisabledAnnotation] == "true" && !kube.IsProtected(n) {
			nodes = append(nodes, "Node "+n.Name)
		}
	}
	for _, pod := range s.Pods {
		_, protected := pod.Annotations[v1.DoNotDisruptAnnotationKey]
		if own[pod.Spec.NodeName] && !kube.IsTerminal(pod) && pod.Annotations[kube.SafeToEvictAnnotation] == "false" && !protected {
			pods = append(pods, "Pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(pods)
	if len(pods) > 0 {
		l.warning(engine.AtMost(pods, 3), "annotation "+kube.SafeToEvictAnnotation+" is \"false\", which only Cluster Autoscaler reads: Tenon may move them",
			"write "+v1.DoNotDisruptAnnotationKey+": \"true\" beside it in their templates")
	}
	if len(nodes) > 0 {
		l.warning(engine.AtMost(nodes, 3), "annotation "+kube.ScaleDownDisabledAnnotation+" is \"true\", which only Cluster Autoscaler reads: Tenon may remove them",
			"write "+v1.DoNotDisruptAnnotationKey+": \"true\" in the pool's template, or on the node")
	}
}

// overlaps finds pools whose machines are for the same pods as the nodes of a node group: by existing pods, and by taints. Pods that choose
// one of the two autoscalers to act first do not count.
func (l *list) overlaps(p *Picture, groups []explain.OtherGroup) {
	common := map[[2]string][]string{} // pods by pool and group
	for pool, pods := range wouldLaunch(p, groups) {
		for _, pod := range pods {
			for _, g := range groups {
				if !g.Admits(pod) {
					continue
				}
				key := [2]string{pool, g.Name}
				if common[key] = append(common[key], pod.Namespace+"/"+pod.Name); agreed(pod) {
					common[key] = common[key][:len(common[key])-1]
				}
			}
		}
	}
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(common)), func(key [2]string) bool { return len(common[key]) == 0 })
	for _, pool := range p.Snapshot.NodePools {
		taints := slices.DeleteFunc(v1.CoreTaints(pool.Spec.Template.Spec.Taints), func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
		for _, g := range groups {
			key := [2]string{pool.Name, g.Name}
			_, known := common[key]
			if !known && pool.Spec.Replicas == nil && kube.HasTaints(taints, g.Taints) && kube.HasTaints(g.Taints, taints) {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		says := "it and node group " + key[1] + " keep off the same pods by their taints: both start machines for pods that choose neither by labels"
		if pods := common[key]; len(pods) > 0 {
			slices.Sort(pods)
			says = fmt.Sprintf("it and node group %s are for the same pods, such as %s: both start machines for them", key[1], engine.AtMost(pods, 3))
		}
		l.warning("NodePool "+key[0], says, "give one of them a taint that only its own pods tolerate, or have pods say who comes first; "+guide)
	}
}

// agreed reports whether the pod chooses one of the two autoscalers to act first.
func agreed(pod *corev1.Pod) bool {
	return pod.Annotations[v1.LaunchDelayAnnotationKey] != "" || pod.Annotations[kube.ScaleUpDelayAnnotation] != ""
}

// mostAsked bounds the number of pods in the test plan. It has one pod of each owner.
const mostAsked = 200

// wouldLaunch returns pods that node groups admit and for which a pool would start a machine if each were pending and alone, by pool.
func wouldLaunch(p *Picture, groups []explain.OtherGroup) map[string][]*corev1.Pod {
	ask := *p.Snapshot
	ask.Pods, ask.Nodes, ask.NodeClaims, ask.DaemonSets, ask.PersistentVolumeClaims = nil, nil, nil, nil, nil
	asked := map[types.UID]*corev1.Pod{}
	owners := map[types.UID]bool{}
	for _, pod := range kube.ByName(p.Snapshot.Pods) {
		owner := pod.UID
		if o := metav1.GetControllerOf(pod); o != nil {
			owner = o.UID
		}
		if kube.IsTerminal(pod) || kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) || owners[owner] || len(asked) == mostAsked ||
			!slices.ContainsFunc(groups, func(g explain.OtherGroup) bool { return g.Admits(pod) }) {
			continue
		}
		owners[owner] = true
		pretended := alone(pod, p.Now)
		ask.Pods = append(ask.Pods, pretended)
		asked[pretended.UID] = pod
	}
	out := map[string][]*corev1.Pod{}
	if len(asked) == 0 {
		return out
	}
	for _, launch := range provisioning.Plan(&ask, p.Options, nil).Launches {
		for _, id := range launch.Pods {
			if pod := asked[types.UID(id.UID)]; pod != nil {
				out[launch.NodePool] = append(out[launch.NodePool], pod)
			}
		}
	}
	return out
}

// alone returns the pod as if it were pending, without its constraints about other pods and volumes.
func alone(pod *corev1.Pod, now time.Time) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: "alone-" + pod.UID, Labels: pod.Labels, CreationTimestamp: metav1.NewTime(now),
	}, Spec: *pod.Spec.DeepCopy()}
	out.Spec.NodeName, out.Spec.Volumes, out.Spec.TopologySpreadConstraints = "", nil, nil
	if out.Spec.Affinity != nil {
		out.Spec.Affinity.PodAffinity, out.Spec.Affinity.PodAntiAffinity = nil, nil
	}
	out.Spec.Tolerations = slices.DeleteFunc(out.Spec.Tolerations, func(t corev1.Toleration) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Effect == corev1.TaintEffectNoExecute
	})
	out.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}}
	return out
}
