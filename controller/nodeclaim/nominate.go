package nodeclaim

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

// writesAtOnce bounds the writes to pods that one claim has under way.
const writesAtOnce = 16

// nominate points the pods that the claim was planned for at its node, so that kube-scheduler tries that one first. It is
// advice: what fails is not tried again.
func (a *application) nominate(ctx context.Context, claim *v1.NodeClaim, node string) {
	if a.NoNominations {
		return
	}
	var pods []*corev1.Pod
	for _, pod := range a.plannedPods(ctx, claim) {
		if pod.Status.NominatedNodeName == "" { // otherwise kube-scheduler preempts for it elsewhere
			pods = append(pods, pod)
		}
	}
	a.writeNominations(ctx, pods, strconv.Quote(node))
}

// withdraw takes back that pods are nominated to nodes which leave.
func (a *application) withdraw(ctx context.Context, nodes []string) {
	unbound, err := a.podsBy(ctx, "")
	if err != nil {
		log.FromContext(ctx).Error(err, "could not take nominations back")
		return
	}
	pods := slices.DeleteFunc(unbound, func(p *corev1.Pod) bool { return !slices.Contains(nodes, p.Status.NominatedNodeName) })
	a.writeNominations(ctx, pods, "null")
}

// plannedPods finds the pods that the claim was planned for and that still wait for a node.
func (a *application) plannedPods(ctx context.Context, claim *v1.NodeClaim) []*corev1.Pod {
	var waiting []*corev1.Pod
	for _, uid := range engine.PlannedPods(claim) {
		pods, err := a.podsWith(ctx, cluster.PodsByUID, uid)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not find the planned pods", "NodeClaim", claim.Name)
			return nil
		}
		for _, pod := range pods {
			if engine.IsPending(pod) {
				waiting = append(waiting, pod)
			}
		}
	}
	return waiting
}

// writeNominations writes one value to all pods. The UID keeps it off a later pod of the same name.
func (a *application) writeNominations(ctx context.Context, pods []*corev1.Pod, value string) {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for _, pod := range pods {
		group.Go(func() error {
			patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"nominatedNodeName":%s}}`, pod.UID, value)
			target := &corev1.Pod{}
			target.Namespace, target.Name = pod.Namespace, pod.Name
			err := a.Cluster.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)))
			// A pod that was bound meanwhile takes no nomination: the API server calls that invalid.
			if err != nil && !cluster.Expected(err) && !apierrors.IsInvalid(err) {
				log.FromContext(ctx).Error(err, "could not nominate pod", "Pod", pod.Namespace+"/"+pod.Name, "Node", value)
			}
			return nil
		})
	}
	_ = group.Wait() // every error was told
}
