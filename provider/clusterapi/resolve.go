package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi/assortment"
	"tenon.sh/provider/clusterapi/contract"
)

// Resolve looks at what the class selects, and writes its conditions.
func (p *Provider) Resolve(ctx context.Context, class provider.Class) (problem string, err error) {
	c, err := classOf(class)
	if err != nil {
		return "", err
	}
	now := p.cfg.Clock.Now()
	f, err := p.find(ctx, c)
	if ctx.Err() != nil || errors.Is(err, ErrNotConnected) { // what was found before a restart holds
		return "", fmt.Errorf("resolve ClusterAPINodeClass %s: %w", c.Name, cmp.Or(ctx.Err(), err))
	}
	if err != nil {
		v1.SetCondition(c, clusterapiv1alpha1.ConditionManagementClusterReady, metav1.ConditionFalse, "OutOfReach", err.Error(), now)
		return clusterapiv1alpha1.ConditionManagementClusterReady + ": " + err.Error(), nil
	}
	v1.SetCondition(c, clusterapiv1alpha1.ConditionManagementClusterReady, metav1.ConditionTrue, "", "", now)
	c.Status.MachineDeployments = int32(len(f.machines))
	status, reason := metav1.ConditionTrue, ""
	if problem = problemOf(f, c); problem != "" {
		status, reason = metav1.ConditionFalse, "NoneUsable"
	}
	v1.SetCondition(c, clusterapiv1alpha1.ConditionMachineDeploymentsReady, status, reason, cut(strings.Join(remarks(f, problem), "; ")), now)
	return problem, nil
}

// problemOf says why no machines can be made with a class, "" if some can.
func problemOf(f *found, c *clusterapiv1alpha1.ClusterAPINodeClass) string {
	switch {
	case c.DeletionTimestamp != nil:
		return "it is being deleted"
	case len(f.deployments) == 0:
		return fmt.Sprintf("no MachineDeployment has the label %s with an empty value and is selected", contract.MemberLabel)
	case len(f.clusters) > 1:
		return fmt.Sprintf("MachineDeployments of the clusters %s are selected: say in spec.clusterName which one this is", strings.Join(f.clusters, ", "))
	case len(f.machines) == 0:
		return strings.Join(f.problems, "; ")
	}
	return ""
}

// remarks are what is to be known about the MachineDeployments of a class.
func remarks(f *found, problem string) []string {
	var out []string
	if problem != "" {
		out = append(out, problem)
	}
	_, same := assortment.Catalog(f.machines)
	for _, text := range slices.Concat(f.problems, same, f.notes) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, m := range f.machines {
		d := f.deployments[m.Key]
		if m.Blocked != "" {
			out = append(out, fmt.Sprintf("MachineDeployment %s makes no machines now: %s", m.Key, m.Blocked))
		}
		if m.Estimated {
			out = append(out, fmt.Sprintf("MachineDeployment %s: its price is estimated, %.4f USD per hour: set annotation %s, or spec.prices", m.Key, m.Price, contract.PriceAnnotation))
		}
		_, least := d.Annotations[contract.MinSizeAnnotation]
		if least && m.Max >= 0 {
			out = append(out, fmt.Sprintf("MachineDeployment %s has both size annotations: Cluster Autoscaler would scale it too if it runs here: give it another node group discovery", m.Key))
		}
	}
	return out
}

// longestMessage is how much a condition says.
const longestMessage = 2000

func cut(text string) string {
	if len(text) <= longestMessage {
		return text
	}
	return strings.ToValidUTF8(text[:longestMessage-3], "") + "..."
}

// Catalog lists what can be made with the class.
func (p *Provider) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	f, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	types, _ := assortment.Catalog(f.machines)
	return types, nil
}

// Traits say which machines have drifted: those of MachineDeployments that the class does not select any more, and those that
// were made from another template where Cluster API does not replace them by itself; if replacing is left to it, all of another
// template.
func (p *Provider) Traits(ctx context.Context, class provider.Class) ([]engine.Trait, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	m, err := p.management()
	if err != nil {
		return nil, err
	}
	f, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	from := engine.Trait{Key: v1.MachineDeploymentAnnotationKey, Reason: "MachineDeploymentDrift"}
	deferred := c.Spec.DriftPolicy == clusterapiv1alpha1.DriftDefer
	template := engine.Trait{Key: v1.MachineTemplateAnnotationKey, Reason: "MachineTemplateDrift", Observed: deferred}
	var sets contract.MachineSetList
	if err := m.Cached.List(ctx, &sets); err != nil {
		return nil, fmt.Errorf("list MachineSets: %w", err)
	}
	for key := range f.deployments {
		from.Accepts = append(from.Accepts, key)
	}
	active := map[string]int{}
	for i := range sets.Items {
		set := &sets.Items[i]
		key := set.Namespace + "/" + set.Labels[contract.DeploymentNameLabel]
		d := f.deployments[key]
		if hash := set.Labels[contract.TemplateHashLabel]; d != nil && (d.IsNewest(set) || !d.OnDelete() && !deferred) {
			template.Accepts = append(template.Accepts, hash)
		}
		if d != nil && !d.OnDelete() && set.Spec.Replicas != nil && *set.Spec.Replicas > 0 {
			if active[key]++; active[key] == 2 { // it rolls out
				from.Replacing = append(from.Replacing, key)
			}
		}
	}
	slices.Sort(from.Replacing)
	traits := []engine.Trait{from}
	if len(template.Accepts) > 0 && c.Spec.DriftPolicy != clusterapiv1alpha1.DriftIgnore {
		traits = append(traits, template)
	}
	for i := range traits {
		slices.Sort(traits[i].Accepts)
		traits[i].Accepts = slices.Compact(traits[i].Accepts)
	}
	return traits, nil
}
