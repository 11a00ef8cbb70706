package explore

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/simulated"
)

// users are people and their tools: they change workloads and settings, and sometimes delete objects by mistake.
func users(w *world, add func(action)) {
	if w.calm {
		return
	}
	act := func(name string, weight int, do func()) {
		add(action{kind: "user", name: name, weight: weight, fault: true, do: do})
	}
	act("scales", 6, func() {
		if rs := anyOf[*appsv1.ReplicaSet](w); rs != nil {
			n := int32(w.draw(6))
			update(w.api, rs, func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &n })
		}
	})
	act("rolls out", 2, func() {
		if rs := anyOf[*appsv1.ReplicaSet](w); rs != nil {
			cpu := resource.MustParse(pick(w, "400m", "900m", "1500m", "3"))
			update(w.api, rs, func(rs *appsv1.ReplicaSet) {
				rs.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpu
			})
			for _, pod := range all[*corev1.Pod](w.api) {
				if pod.Labels["app"] == rs.Name {
					w.deletePod(pod)
				}
			}
		}
	})
	act("deletes a pod", 2, func() { deleteAny[*corev1.Pod](w) })
	act("deletes a claim", 2, func() { deleteAny[*v1.NodeClaim](w) })
	act("deletes a node", 2, func() { deleteAny[*corev1.Node](w) })
	act("protects a pod", 1, func() {
		if pod := anyOf[*corev1.Pod](w); pod != nil {
			update(w.api, pod, func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.DoNotDisruptAnnotationKey, "true") })
		}
	})
	act("adds a budget", 1, func() {
		if rs := anyOf[*appsv1.ReplicaSet](w); rs != nil {
			w.newBudget(rs.Name, w.draw(2))
		}
	})
	act("removes a budget", 1, func() { deleteAny[*policyv1.PodDisruptionBudget](w) })
	act("cordons a node", 1, func() {
		if node := anyOf[*corev1.Node](w); node != nil {
			update(w.api, node, func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
		}
	})
	act("changes a pool's template", 1, func() {
		if pool := anyOf[*v1.NodePool](w); pool != nil {
			update(w.api, pool, func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "c"}; p.Generation++ })
		}
	})
	if w.opt.Buffers {
		act("makes or deletes a buffer", 60, w.toggleBuffer)
	}
	if pool := find[*v1.NodePool](w.api, "/"+fixedPool); pool != nil {
		act("changes the replicas of a pool", 2, func() {
			n := int64(w.draw(4))
			update(w.api, pool, func(p *v1.NodePool) { p.Spec.Replicas = &n; p.Generation++ })
		})
	}
	if len(all[*v1.NodePool](w.api)) > 1 {
		act("deletes a pool", 1, func() { deleteAny[*v1.NodePool](w) })
	}
	act("breaks or mends the node class", 2, func() { w.setClass(w.draw(2) == 0) })
}

// anyOf returns a random object of a kind. It returns nil if there is none.
func anyOf[T client.Object](w *world) T {
	list := all[T](w.api)
	if len(list) == 0 {
		var none T
		return none
	}
	return list[w.draw(len(list))]
}

func deleteAny[T client.Object](w *world) {
	if list := all[T](w.api); len(list) > 0 {
		o := list[w.draw(len(list))]
		_ = w.api.remove(w.api.shelfOf(o), keyOf(o), deletion{uid: o.GetUID()})
	}
}

// setClass makes the node class usable or unusable.
func (w *world) setClass(ready bool) {
	class := find[*kwokv1alpha1.KWOKNodeClass](w.api, "/default")
	if v1.IsTrue(class, v1.ConditionReady) == ready {
		return
	}
	update(w.api, class, func(c *kwokv1alpha1.KWOKNodeClass) {
		readyClass(c, ready, w.clock.Now())
	})
}

// readyClass writes a class's Ready condition.
func readyClass(class *kwokv1alpha1.KWOKNodeClass, ready bool, since time.Time) {
	condition := metav1.Condition{Type: v1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1.ConditionReady, LastTransitionTime: metav1.NewTime(since.Truncate(time.Second))}
	if !ready {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Broken", "somebody broke it"
	}
	class.SetConditions([]metav1.Condition{condition})
}

// lasting are the faults of the cloud with a duration: for one type or zone, or for the machines that start during the fault.
var lasting = []struct {
	what string
	draw func(w *world) simulated.Fault
}{
	{simulated.FaultShort, func(w *world) simulated.Fault {
		return simulated.Fault{Selector: simulated.Selector{InstanceType: pick(w, w.catalog...).Name}}
	}},
	{simulated.FaultOutage, func(w *world) simulated.Fault {
		return simulated.Fault{Selector: simulated.Selector{Zone: pick(w, "test-zone-a", "test-zone-b")}}
	}},
	{simulated.FaultLateRegister, func(w *world) simulated.Fault {
		return simulated.Fault{Lag: metav1.Duration{Duration: pick(w, 5*time.Second, time.Minute, 10*time.Minute)}}
	}},
	{simulated.FaultLess, func(w *world) simulated.Fault {
		return simulated.Fault{Resource: pick(w, "cpu", "memory", "pods"), Factor: pick(w, 0.05, 0.5, 0.9)}
	}},
	{simulated.FaultTaint, func(w *world) simulated.Fault {
		return simulated.Fault{Taint: pick(w, "example.com/agent:NoSchedule", "karpenter.sh/unregistered:NoExecute-")}
	}},
	{simulated.FaultLabel, func(w *world) simulated.Fault {
		return simulated.Fault{Label: pick(w, "topology.kubernetes.io/zone-", "topology.kubernetes.io/zone=test-zone-c")}
	}},
	{simulated.FaultAttach, func(w *world) simulated.Fault {
		return simulated.Fault{Driver: diskDriver, Count: 1, Lag: metav1.Duration{Duration: pick(w, 0, time.Second, 20*time.Second)}}
	}},
}

// troubles are the faults of the cloud.
func troubles(w *world, add func(action)) {
	if w.calm {
		return
	}
	inject := func(f simulated.Fault) { _ = w.cloud.Inject(f) }
	boots := w.cloud.Boots()
	for _, boot := range boots {
		for _, f := range []simulated.Fault{{What: simulated.FaultKill}, {What: simulated.FaultReclaim, Share: 1}} {
			f.Selector.Machine = boot.Claim
			add(action{kind: "cloud", name: f.What + " ", object: boot.Claim, weight: 1, fault: true, do: func() { inject(f) }})
		}
	}
	if len(boots) > 0 {
		for _, what := range []string{simulated.FaultGone, simulated.FaultBare, simulated.FaultSecond} {
			add(action{kind: "cloud", name: what + " ", weight: 1, fault: true, do: func() {
				inject(simulated.Fault{What: what, Selector: simulated.Selector{Machine: pick(w, boots...).Claim}})
			}})
		}
	}
	for _, x := range lasting {
		add(action{kind: "cloud", name: x.what + " ", weight: 1, fault: true, do: func() {
			f := x.draw(w)
			f.What = x.what
			w.lasts(f)
		}})
	}
}

// lasts starts a fault of the cloud with a random duration.
func (w *world) lasts(f simulated.Fault) {
	f.For.Duration = pick(w, time.Minute, 5*time.Minute)
	_ = w.cloud.Inject(f)
	if end := w.clock.Now().Add(f.For.Duration + f.Lag.Duration); end.After(w.scene.until) {
		w.scene.until = end
	}
}

// quieten makes users repair their mistakes.
func (k *kubernetes) quieten() {
	k.w.setClass(true)
	k.w.mendTemplates()
	if k.w.opt.Buffers {
		k.w.wantNothing()
	}
	for _, node := range all[*corev1.Node](k.w.api) {
		if node.Spec.Unschedulable {
			update(k.w.api, node, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		}
	}
}
