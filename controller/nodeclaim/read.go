package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
)

// presenceAge is how long the cloud's answer that a machine exists is valid while the machine's node is drained.
const presenceAge = 5 * time.Second

// errStale means that the cache shows a node as it was before this process changed it.
var errStale = errors.New("the cache is older than what was written")

// read collects from the caches the input of the next step of a claim, or of a node without one. The objects in it are shared: the
// engine changes none of them.
func (r *Reconciler) read(ctx context.Context, mem *memory, claim *v1.NodeClaim, node string) (lifecycle.Life, error) {
	life := lifecycle.Life{Claim: claim, PodLeft: timeOf(&mem.podLeft), BriefPodLeft: timeOf(&mem.briefPodLeft), Nominating: !r.Options.NoNominations}
	var err error
	if life.Nodes, err = r.readNodes(ctx, claim, node); err != nil {
		return life, err
	}
	for _, n := range life.Nodes {
		if mem.isStale(n) || mem.awaits(n, r.Cluster.Clock.Now()) {
			return life, errStale
		}
	}
	if life.Pods, err = r.readPods(ctx, life.Nodes); err != nil {
		return life, err
	}
	if claim != nil && claim.DeletionTimestamp == nil {
		if life.Published, err = r.readPublished(ctx, claim); err != nil {
			return life, err
		}
		if life.Pool, err = r.readPool(ctx, claim); life.Pool != nil && life.Pool.Spec.Template.Spec.NodeClassRef != nil {
			class := r.Cluster.ClassOf(ctx, *life.Pool.Spec.Template.Spec.NodeClassRef)
			life.Class = &class
		}
		return life, err
	}
	if err := r.readBudgets(ctx, &life); err != nil {
		return life, err
	}
	if err := r.readWorkloads(ctx, &life); err != nil {
		return life, err
	}
	return life, r.readVolumes(ctx, &life)
}

// readPublished reads the devices that drivers have published, if the claim's machine was started for devices.
func (r *Reconciler) readPublished(ctx context.Context, claim *v1.NodeClaim) (*dra.Published, error) {
	if !r.Cluster.DeviceClaims() || len(kube.DriversAskedFor(claim)) == 0 {
		return nil, nil
	}
	list, err := r.Cluster.ResourceSlices(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the ResourceSlices for NodeClaim %s: %w", claim.Name, err)
	}
	r.slices.Lock()
	defer r.slices.Unlock()
	return r.slices.read.PublishedIn(&engine.Snapshot{ResourceSlices: list}), nil
}

// readBudgets reads the PodDisruptionBudgets that may hold pods.
func (r *Reconciler) readBudgets(ctx context.Context, life *lifecycle.Life) error {
	seen := map[string]bool{}
	for _, p := range life.Pods {
		if seen[p.Namespace] {
			continue
		}
		seen[p.Namespace] = true
		var list policyv1.PodDisruptionBudgetList
		if err := r.Cluster.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the PodDisruptionBudgets of namespace %s: %w", p.Namespace, err)
		}
		for i := range list.Items {
			life.Budgets = append(life.Budgets, &list.Items[i])
		}
	}
	return nil
}

func (r *Reconciler) readNodes(ctx context.Context, claim *v1.NodeClaim, name string) ([]*corev1.Node, error) {
	if claim == nil {
		node := &corev1.Node{}
		if err := r.Cluster.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return nil, fmt.Errorf("read Node %s: %w", name, err)
		}
		return []*corev1.Node{node}, nil
	}
	if claim.Status.ProviderID == "" {
		return nil, nil
	}
	var list corev1.NodeList
	err := r.Cluster.Client.List(ctx, &list, client.MatchingFields{cluster.NodesByProviderID: claim.Status.ProviderID}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the nodes of NodeClaim %s: %w", claim.Name, err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes, nil
}

func (r *Reconciler) readPods(ctx context.Context, nodes []*corev1.Node) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, n := range nodes {
		found, err := r.podsBy(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		pods = append(pods, found...)
	}
	return pods, nil
}

// podsBy lists the cached pods of a node, or the pods without a node.
func (r *Reconciler) podsBy(ctx context.Context, node string) ([]*corev1.Pod, error) {
	return r.podsWith(ctx, cluster.PodsByNode, node)
}

// podsWith lists the cached pods that have the value in one of the indexed fields.
func (r *Reconciler) podsWith(ctx context.Context, field, value string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Cluster.Client.List(ctx, &list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods with %s %q: %w", field, value, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

func (r *Reconciler) readPool(ctx context.Context, claim *v1.NodeClaim) (*v1.NodePool, error) {
	name := claim.Labels[v1.NodePoolLabelKey]
	if name == "" {
		return nil, nil
	}
	pool := &v1.NodePool{}
	if err := r.Cluster.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read NodePool %s: %w", name, err)
	}
	return pool, nil
}

// readVolumes reads the attachments of nodes that leave, and, only if there are any, the volumes of pods that stay.
func (r *Reconciler) readVolumes(ctx context.Context, life *lifecycle.Life) error {
	for _, n := range life.Nodes {
		var list storagev1.VolumeAttachmentList
		if err := r.Cluster.Client.List(ctx, &list, client.MatchingFields{cluster.VolumeAttachmentsByNode: n.Name}); err != nil {
			return fmt.Errorf("list the volumes attached to Node %s: %w", n.Name, err)
		}
		for i := range list.Items {
			life.Attachments = append(life.Attachments, &list.Items[i])
		}
	}
	if len(life.Attachments) == 0 {
		return nil
	}
	for _, key := range lifecycle.KeptVolumeClaims(life.Pods, r.Cluster.Clock.Now()) {
		pvc := &corev1.PersistentVolumeClaim{}
		if err := r.Cluster.API.Get(ctx, key, pvc); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("read PersistentVolumeClaim %s: %w", key, err)
		}
		life.VolumeClaims = append(life.VolumeClaims, pvc)
	}
	return nil
}

// answer gets the data that a step asks for.
func (r *Reconciler) answer(ctx context.Context, mem *memory, life *lifecycle.Life, ask lifecycle.Ask) error {
	switch ask {
	case lifecycle.AskNode:
		return r.seekNode(ctx, life)
	case lifecycle.AskPods:
		life.Pods, life.Fresh = nil, true
		for _, n := range life.Nodes {
			pods, err := r.Cluster.PodsOn(ctx, n.Name)
			if err != nil {
				return err
			}
			life.Pods = append(life.Pods, pods...)
		}
		return nil
	case lifecycle.AskMachine:
		return r.look(ctx, mem, life)
	}
	return r.terminate(ctx, mem, life)
}

// seekNode checks that the cache is not behind the API server about the claim's node.
func (r *Reconciler) seekNode(ctx context.Context, life *lifecycle.Life) error {
	name, cached := life.Claim.Status.NodeName, ""
	for _, n := range life.Nodes {
		if n.Name == name {
			cached = n.ResourceVersion
		}
	}
	node := &corev1.Node{}
	err := r.Cluster.API.Get(ctx, client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look for Node %s: %w", name, err)
	}
	if node.Spec.ProviderID != life.Claim.Status.ProviderID { // or there is none
		node.ResourceVersion = ""
	}
	if node.ResourceVersion != cached {
		return errStale
	}
	life.Sought = true
	return nil
}

// look asks the cloud whether the machine exists.
func (r *Reconciler) look(ctx context.Context, mem *memory, life *lifecycle.Life) error {
	now := r.Cluster.Clock.Now()
	if mem.presence == lifecycle.MachinePresent && now.Sub(mem.looked) < presenceAge {
		life.Machine = lifecycle.MachinePresent
		return nil
	}
	id := machineID(life)
	_, err := r.Cluster.Provider.Machine(ctx, id)
	switch {
	case errors.Is(err, provider.ErrGone), id == "":
		life.Machine = lifecycle.MachineGone
	case err != nil:
		return fmt.Errorf("look for machine %s: %w", id, err)
	default:
		life.Machine = lifecycle.MachinePresent
	}
	mem.looked, mem.presence = now, life.Machine
	return nil
}

func machineID(life *lifecycle.Life) engine.MachineID {
	if life.Claim != nil {
		return engine.MachineID(life.Claim.Status.ProviderID)
	}
	return engine.MachineID(life.Nodes[0].Spec.ProviderID)
}

// terminate tells the cloud to stop the machine.
func (r *Reconciler) terminate(ctx context.Context, mem *memory, life *lifecycle.Life) error {
	id := machineID(life)
	if id == "" && life.Claim != nil && !mem.unlaunched {
		var err error
		if id, err = r.unrecorded(ctx, life.Claim); err != nil {
			return err
		}
		if id != "" {
			return r.record(ctx, mem, life, id)
		}
	}
	if id == "" {
		life.Machine = lifecycle.MachineGone
		return nil
	}
	err := r.Cluster.Provider.Terminate(ctx, id)
	switch {
	case errors.Is(err, provider.ErrGone):
		life.Machine = lifecycle.MachineGone
		log.FromContext(ctx).Info("terminated machine", "machine", string(id))
	case err != nil:
		return fmt.Errorf("terminate machine %s: %w", id, err)
	default:
		life.Machine = lifecycle.MachineLeaving
		if !mem.terminated {
			log.FromContext(ctx).V(1).Info("told machine to stop", "machine", string(id))
		}
		mem.terminated = true
	}
	return nil
}

// record writes the machine on the claim, and reads the rest again: the machine's node may run pods, which leave before the machine stops.
func (r *Reconciler) record(ctx context.Context, mem *memory, life *lifecycle.Life, id engine.MachineID) error {
	claim, err := r.Cluster.PatchClaimStatus(ctx, life.Claim, func(c *v1.NodeClaim) { c.Status.ProviderID = string(id) })
	if err != nil {
		return err
	}
	mem.wrote(claim)
	*life, err = r.read(ctx, mem, claim, "")
	return err
}

// unrecorded finds the machine of a claim that names none, because a process may have started it and crashed before it recorded this.
func (r *Reconciler) unrecorded(ctx context.Context, claim *v1.NodeClaim) (engine.MachineID, error) {
	machines, err := r.Cluster.Provider.Machines(ctx)
	if err != nil {
		return "", fmt.Errorf("look for a machine of NodeClaim %s: %w", claim.Name, err)
	}
	for _, m := range machines {
		if m.ClaimUID == string(claim.UID) || m.ClaimUID == "" && m.Claim == claim.Name {
			return m.ID, nil
		}
	}
	return "", nil
}
