package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider"
)

// daemonSets finds DaemonSets whose pods fit no machine of any pool. It plans one pending pod of each DaemonSet.
func daemonSets(p *Picture) []provider.Finding {
	l := list{check: "daemonset"}
	if p.Snapshot == nil || len(p.Snapshot.NodePools) == 0 {
		return nil
	}
	ask := *p.Snapshot
	ask.Pods, ask.Nodes, ask.NodeClaims, ask.DaemonSets = nil, nil, nil, nil
	for _, ds := range p.Snapshot.DaemonSets {
		ask.Pods = append(ask.Pods, pretended(ds, p.Now))
	}
	for _, u := range provisioning.Plan(&ask, p.Options, nil).Unplaced {
		why := ""
		if len(u.Reasons) > 0 {
			why = ": " + engine.Sentence(u.Reasons)
		}
		l.warning("DaemonSet "+u.Pod.Namespace+"/"+u.Pod.Name, "its pods fit no machine of any pool"+why, "if they belong on these machines too, see its node selector, tolerations and requests")
	}
	l.stuckDaemons(p)
	return l.or(count(len(p.Snapshot.DaemonSets), "DaemonSet") + " would run on machines of some pool")
}

// daemonPatience is the time after which an unscheduled pod of a DaemonSet is reported.
const daemonPatience = 2 * time.Minute

// stuckDaemons finds DaemonSets with pods that have no room on their nodes. No machine is started for these pods.
func (l *list) stuckDaemons(p *Picture) {
	waiting, first := map[string]int{}, map[string]string{}
	for _, pod := range p.Snapshot.Pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || !kube.OwnedByDaemonSet(pod) || pod.DeletionTimestamp != nil || p.Now.Sub(pod.CreationTimestamp.Time) <= daemonPatience {
			continue
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
		if name := pod.Namespace + "/" + owner.Name; i >= 0 {
			if waiting[name]++; waiting[name] == 1 {
				first[name] = strings.TrimSuffix(pod.Name+": "+pod.Status.Conditions[i].Message, ": ")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		l.warning("DaemonSet "+name, fmt.Sprintf("%s found no room on the nodes they are for, the first is %s", count(waiting[name], "pod"), first[name]),
			"give the DaemonSet a priority class above that of other pods, or less to request: no machine is started for its pods")
	}
}

// pretended returns a pod of the DaemonSet's template without an owner.
func pretended(ds *appsv1.DaemonSet, now time.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ds.Namespace, Name: ds.Name, UID: types.UID("daemonset-" + string(ds.UID)), Labels: ds.Spec.Template.Labels,
		CreationTimestamp: metav1.NewTime(now),
	}, Spec: *ds.Spec.Template.Spec.DeepCopy()}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}}
	return pod
}

// budgets finds PodDisruptionBudgets that never allow an eviction, whatever other pods run.
func budgets(p *Picture) []provider.Finding {
	l := list{check: "poddisruptionbudget"}
	if p.Snapshot == nil {
		return nil
	}
	for _, b := range p.Snapshot.PodDisruptionBudgets {
		if b.Status.ExpectedPods > 0 && b.Status.DisruptionsAllowed == 0 && never(b) != "" {
			l.warning("PodDisruptionBudget "+b.Namespace+"/"+b.Name, fmt.Sprintf("%s lets none of its %s go: their nodes are never drained, and drift and expiry wait for ever",
				never(b), count(int(b.Status.ExpectedPods), "pod")), "allow one to be away, or run one more; spec.template.spec.terminationGracePeriod of the pool bounds the wait")
		}
	}
	return l.or(count(len(p.Snapshot.PodDisruptionBudgets), "budget") + " let pods go")
}

// never returns the field by which a budget forbids every eviction. It returns "" if there is no such field.
func never(b *policyv1.PodDisruptionBudget) string {
	if most := b.Spec.MaxUnavailable; most != nil && strings.TrimSuffix(most.String(), "%") == "0" {
		return "maxUnavailable " + most.String()
	}
	if least := b.Spec.MinAvailable; least != nil && (least.String() == "100%" || least.Type == 0 && least.IntVal >= b.Status.ExpectedPods) {
		return "minAvailable " + least.String()
	}
	return ""
}
