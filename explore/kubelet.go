package explore

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/simulated"
)

// kubelets are the machines' kubelets: Nodes register and become ready, pods start and end.
func kubelets(w *world, add func(action)) {
	k := w.kube
	now, pods := w.clock.Now(), all[*corev1.Pod](w.api)
	for _, boot := range w.cloud.Boots() {
		add(action{kind: "cloud", at: boot.Ends})
		there := find[*corev1.Node](w.api, "/"+k.nodeName(boot.ID))
		switch {
		case boot.Registers.IsZero():
		case !k.registered[boot.ID] && there == nil:
			add(action{kind: "kubelet", name: "registers ", object: k.nodeName(boot.ID), weight: 6, at: boot.Registers, do: func() { k.register(boot.ID) }})
		case there != nil && !boot.Ready.IsZero() && !boot.Held && !isReady(there):
			add(action{kind: "kubelet", name: "is ready on ", object: there.Name, weight: 6, at: boot.Ready, do: func() { k.setReady(there, corev1.ConditionTrue) }})
		}
		for _, node := range []*corev1.Node{there, find[*corev1.Node](w.api, "/"+k.nodeName(boot.ID)+simulated.SecondSuffix)} {
			if node == nil || boot.Ready.After(now) || !isReady(node) {
				continue
			}
			for _, pod := range pods {
				if pod.Spec.NodeName == node.Name {
					k.runPod(pod, add)
				}
			}
		}
	}
	for _, m := range w.cloud.NodeFaults() {
		k.carryOut(m, add)
	}
}

// register creates the Node of a machine.
func (k *kubernetes) register(id engine.MachineID) {
	k.registered[id] = true
	if m, allocatable, found := k.w.cloud.Inspect(id); found {
		node := k.newNode(m, allocatable)
		k.w.cloud.Dress(node)
		_, _ = k.w.api.create(node)
	}
}

// carryOut adds the action of a fault on a machine's node, once its time has come.
func (k *kubernetes) carryOut(m simulated.NodeFault, add func(action)) {
	node := find[*corev1.Node](k.w.api, "/"+k.nodeName(m.Machine))
	if node == nil || m.Fault.What == simulated.FaultLabel && node.Labels[v1.RegisteredLabelKey] != "true" {
		return
	}
	add(action{kind: "kubelet", name: m.Fault.What + " of ", object: node.Name, weight: 6, do: func() {
		k.w.cloud.Settle(m.ID)
		switch m.Fault.What {
		case simulated.FaultLabel:
			update(k.w.api, node, func(n *corev1.Node) { m.Relabel(n) })
		case simulated.FaultDevices:
			update(k.w.api, node, m.Show)
		case simulated.FaultAttach:
			_, _ = k.w.api.create(m.CSINode(node))
		case simulated.FaultSlices:
			k.publish(node, m)
		case simulated.FaultSecond:
			second := node.DeepCopy()
			second.ObjectMeta = metav1.ObjectMeta{Name: node.Name + simulated.SecondSuffix, Labels: maps.Clone(node.Labels)}
			delete(second.Labels, v1.RegisteredLabelKey)
			delete(second.Labels, v1.InitializedLabelKey)
			second.Labels[corev1.LabelHostname] = second.Name
			second.Spec.Taints, second.Spec.Unschedulable = []corev1.Taint{v1.UnregisteredTaint()}, false
			if stored, err := k.w.api.create(second); err == nil {
				k.setReady(stored.(*corev1.Node), corev1.ConditionTrue)
			}
		default:
			update(k.w.api, node, func(n *corev1.Node) { n.Finalizers = nil })
			_ = k.w.api.remove(k.w.api.shelfOf(node), keyOf(node), deletion{uid: node.UID})
			if m.Fault.What == simulated.FaultBare {
				delete(k.registered, m.Machine)
			}
		}
	}})
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// setReady writes the Ready condition and its taint.
func (k *kubernetes) setReady(node *corev1.Node, status corev1.ConditionStatus) {
	update(k.w.api, node, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: k.w.api.now()}}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		if status != corev1.ConditionTrue {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// runPod lists a kubelet's actions for one of its pods: start it, or end it in time.
func (k *kubernetes) runPod(pod *corev1.Pod, add func(action)) {
	w := k.w
	switch {
	case pod.DeletionTimestamp != nil:
		end, known := k.ends[pod.UID]
		if !known { // some pods end immediately, some use their whole grace period
			end = w.clock.Now().Add(time.Duration(w.draw(3)) * time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second / 2)
			k.ends[pod.UID] = end
		}
		if pod.DeletionTimestamp.Time.Before(end) {
			end = pod.DeletionTimestamp.Time
		}
		add(action{kind: "kubelet", name: "ended ", object: keyOf(pod), weight: 6, at: end, do: func() {
			zero := int64(0)
			_ = w.api.remove(w.api.shelfOf(pod), keyOf(pod), deletion{uid: pod.UID, grace: &zero})
		}})
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		add(action{kind: "kubelet", name: "starts ", object: keyOf(pod), weight: 6, do: func() {
			update(w.api, pod, func(p *corev1.Pod) {
				now := metav1.NewTime(w.clock.Now().Truncate(time.Second))
				p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
			})
		}})
	}
}

// undecided reports whether the next list of actions may decide the end of a pod.
func (k *kubernetes) undecided() bool {
	return slices.ContainsFunc(all[*corev1.Pod](k.w.api), func(p *corev1.Pod) bool {
		_, known := k.ends[p.UID]
		return p.DeletionTimestamp != nil && !known
	})
}

// nodeControllers are the cloud controller manager and the node lifecycle controller. A Node whose machine is gone becomes unready and is
// deleted.
func nodeControllers(w *world, add func(action)) {
	for _, node := range all[*corev1.Node](w.api) {
		if _, alive := w.cloud.Boot(engine.MachineID(node.Spec.ProviderID)); alive {
			continue
		}
		if isReady(node) {
			add(action{kind: "node lifecycle", name: node.Name, weight: 4, do: func() { w.kube.setReady(node, corev1.ConditionUnknown) }})
		}
		if node.DeletionTimestamp == nil {
			add(action{kind: "cloud controller", name: node.Name, weight: 2, do: func() { _ = w.api.remove(w.api.shelfOf(node), keyOf(node), deletion{uid: node.UID}) }})
		}
	}
}
