package provision

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// nominate points pods at the existing nodes that the plan puts them on, and takes such advice back where it is wrong
// by now. The pods that a node was started for are left to the controller of its claim, which points them there at the
// moment when the node can take pods.
func (r *Reconciler) nominate(ctx context.Context, view *view, plan *engine.Plan) error {
	wanted := map[types.UID]string{}
	for _, p := range plan.Placements {
		pod := view.pods[p.Pod.UID]
		if pod == nil {
			continue
		}
		r.Recorder.Publish(report.PodNominated(pod, target(p, view)))
		node := view.nodes[p.Node]
		if node != nil && p.Claim != "" && node.Labels[v1.InitializedLabelKey] == "true" {
			wanted[p.Pod.UID] = p.Node
		}
	}
	if !r.NominatePods {
		return nil
	}
	planned := plannedElsewhere(plan)
	var changes []nomination
	for uid, pod := range view.pods {
		if node, change := r.decideNomination(pod, wanted[uid], planned[uid], view); change {
			changes = append(changes, nomination{pod, node})
		} else if r.isIgnored(pod, view) {
			log.FromContext(ctx).Info("kube-scheduler does not follow a nomination, the pod will be planned anew",
				"Pod", pod.Namespace+"/"+pod.Name, "Node", pod.Status.NominatedNodeName)
			changes = append(changes, nomination{pod, ""})
		}
	}
	for uid := range r.nominated {
		if view.pods[uid] == nil {
			delete(r.nominated, uid)
		}
	}
	for uid := range r.seen {
		if view.pods[uid] == nil {
			delete(r.seen, uid)
		}
	}
	return r.writeNominations(ctx, changes)
}

type nomination struct {
	pod  *corev1.Pod
	node string
}

func target(p engine.Placement, view *view) string {
	if view.nodes[p.Node] == nil {
		return "nodeclaim/" + p.Claim
	}
	return "node/" + p.Node
}

// plannedElsewhere holds the pods that the plan does not leave to an existing node.
func plannedElsewhere(plan *engine.Plan) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			out[id.UID] = true
		}
	}
	for _, u := range plan.Unplaced {
		out[u.Pod.UID] = true
	}
	return out
}

// decideNomination says where a pod is to be nominated, "" for nowhere, and whether that is a change. A nomination that
// this process did not make is kube-scheduler's, which preempts for it; it is only taken back when its node is gone.
func (r *Reconciler) decideNomination(pod *corev1.Pod, wanted string, elsewhere bool, view *view) (node string, change bool) {
	current := pod.Status.NominatedNodeName
	ours := current != "" && r.nominated[pod.UID] == current
	switch {
	case wanted != "" && (current == "" || ours):
		return wanted, wanted != current
	case current == "":
		return "", false
	case ours && elsewhere, ours && leaving(view.nodes[current]), view.nodes[current] == nil:
		return "", true
	}
	return "", false
}

// ignoredAfter is how long a pod may wait for a node that takes pods and that it is nominated to.
const ignoredAfter = 15 * time.Second

// sighting is when a pod was first seen to be nominated to a node that takes pods.
type sighting struct {
	node  string
	since time.Time
}

// isIgnored reports whether kube-scheduler will not have the pod where it is nominated to. As long as others stop there,
// the pod waits for their room.
func (r *Reconciler) isIgnored(pod *corev1.Pod, view *view) bool {
	node := view.nodes[pod.Status.NominatedNodeName]
	if node == nil || !engine.IsPending(pod) || node.Labels[v1.NodePoolLabelKey] != "" && node.Labels[v1.InitializedLabelKey] != "true" || view.stopping[node.Name] {
		delete(r.seen, pod.UID)
		return false
	}
	now := r.Cluster.Clock.Now()
	if s, ok := r.seen[pod.UID]; !ok || s.node != node.Name {
		r.seen[pod.UID] = sighting{node.Name, now}
		return false
	}
	return now.Sub(r.seen[pod.UID].since) > ignoredAfter
}

func leaving(node *corev1.Node) bool {
	return node == nil || node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
}

func (r *Reconciler) writeNominations(ctx context.Context, changes []nomination) error {
	errs := make([]error, len(changes))
	var group errgroup.Group
	group.SetLimit(writeAtOnce)
	for i, change := range changes {
		group.Go(func() error {
			errs[i] = r.Cluster.Nominate(ctx, change.pod, change.node)
			return nil
		})
	}
	_ = group.Wait() // every nomination has its own error
	for i, change := range changes {
		switch {
		case cluster.Expected(errs[i]): // the next pass will see why
			errs[i] = nil
		case errs[i] == nil && change.node != "":
			r.nominated[change.pod.UID] = change.node
			log.FromContext(ctx).V(1).Info("nominated node for pod", "Pod", change.pod.Namespace+"/"+change.pod.Name, "Node", change.node)
		case errs[i] == nil:
			delete(r.nominated, change.pod.UID)
			delete(r.seen, change.pod.UID)
		}
	}
	return errors.Join(errs...)
}
