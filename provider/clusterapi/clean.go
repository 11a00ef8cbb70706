package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// Clean removes Machines that belong to no claim and on which no pods run, and replicas for which no claim waits.
func (p *Provider) Clean(ctx context.Context) error {
	m, err := p.management()
	if err != nil {
		return err
	}
	if err := p.adopt(ctx, m); err != nil {
		return err
	}
	deployments, err := p.looked(ctx, m)
	if err != nil {
		return err
	}
	machines, err := p.machinesByDeployment(ctx, m)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(deployments)) {
		errs = append(errs, p.cleanOne(ctx, m, deployments[key], machines[key]))
	}
	return errors.Join(errs...)
}

// looked returns the MachineDeployments that classes select, from the cache.
func (p *Provider) looked(ctx context.Context, m *Management) (map[string]*contract.MachineDeployment, error) {
	var classes clusterapiv1alpha1.ClusterAPINodeClassList
	if err := p.cfg.Client.List(ctx, &classes); err != nil {
		return nil, fmt.Errorf("list ClusterAPINodeClasses: %w", err)
	}
	var list contract.MachineDeploymentList
	if err := m.Cached.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list MachineDeployments: %w", err)
	}
	out := map[string]*contract.MachineDeployment{}
	for i := range classes.Items {
		class := &classes.Items[i]
		if !v1.IsTrue(class, clusterapiv1alpha1.ConditionMachineDeploymentsReady) {
			continue // the class may select MachineDeployments of another cluster
		}
		selected, _, err := assortment.Selected(class, pointers(list.Items))
		if err != nil {
			continue // the class's condition has the error
		}
		for _, d := range selected {
			out[assortment.Key(d)] = d
		}
	}
	return out, nil
}

// cleanOne cleans one MachineDeployment. It looks in the cache first, and reads from the API server only if there is something to remove.
func (p *Provider) cleanOne(ctx context.Context, m *Management, d *contract.MachineDeployment, cached []*contract.Machine) error {
	key := assortment.Key(d)
	if tidy, err := p.isTidy(ctx, key, take(d, cached, nil)); err != nil || tidy {
		return err
	}
	d, c, err := p.census(ctx, m, key)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	waiting, err := p.waitingFor(ctx, key, c)
	if err != nil {
		return err
	}
	for _, machine := range c.free[min(len(c.free), len(waiting)):] {
		if c.blocked != "" || c.live() <= int(c.least) {
			break
		}
		if !c.shrinksFor(d, machine) {
			continue
		}
		if keep, err := p.keeps(ctx, machine); err != nil {
			return err
		} else if keep {
			continue
		}
		log.FromContext(ctx).Info("removing Machine that belongs to no NodeClaim", "Machine", machine.Namespace+"/"+machine.Name)
		if err := p.remove(ctx, machine); err != nil && !errors.Is(err, provider.ErrGone) {
			return err
		}
		c.free = slices.DeleteFunc(slices.Clone(c.free), func(other *contract.Machine) bool { return other == machine })
	}
	_, err = p.scales.Do(ctx, key, order{key: key}, nil)
	return err
}

// isTidy reports whether a MachineDeployment has the right number of replicas, and no free or marked Machines.
func (p *Provider) isTidy(ctx context.Context, key string, c *census) (bool, error) {
	waiting, err := p.waitingFor(ctx, key, c)
	return len(c.free) == 0 && len(c.marked) == 0 && c.target(len(waiting)) == c.replicas, err
}

// isYoung reports whether a claim may still take a Machine that belongs to no claim.
func (p *Provider) isYoung(machine *contract.Machine) bool {
	return p.cfg.Clock.Since(machine.CreationTimestamp.Time) < p.cfg.Grace
}

// keeps reports whether a Machine that belongs to no claim stays, because it is young or because pods run on its node.
func (p *Provider) keeps(ctx context.Context, machine *contract.Machine) (bool, error) {
	if p.isYoung(machine) {
		return true, nil
	}
	name := machine.Status.NodeRef.Name
	if name == "" {
		return false, nil
	}
	var pods corev1.PodList
	if err := p.cfg.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return false, fmt.Errorf("list the pods of Node %s: %w", name, err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return !kube.IsTerminal(&pod) && !kube.OwnedByDaemonSet(&pod) && !kube.IsMirror(&pod)
	}), nil
}

// Release removes the claim from a Machine. The Machine stays.
func (p *Provider) Release(ctx context.Context, id engine.MachineID) error {
	m, err := p.management()
	if err != nil {
		return err
	}
	machine, err := p.machine(ctx, m, id, m.Live)
	if err != nil {
		return err
	}
	before := client.MergeFrom(machine.DeepCopy())
	for _, key := range []string{v1.MachineClaimAnnotationKey, v1.MachineClaimUIDAnnotationKey, v1.MachineClusterAnnotationKey} {
		delete(machine.Annotations, key)
	}
	if err := p.patchMachine(ctx, m, machine, before); err != nil {
		return fmt.Errorf("release Machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	p.forget(id)
	return nil
}

// ReleaseClass does nothing, because Cluster API has no resources of a class.
func (p *Provider) ReleaseClass(context.Context, provider.Class) ([]string, error) { return nil, nil }
