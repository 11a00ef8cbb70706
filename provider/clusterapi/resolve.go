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

// Resolve reads the MachineDeployments that the class selects, and writes the class's conditions.
func (p *Provider) Resolve(ctx context.Context, class provider.Class) (problem string, err error) {
	c, err := classOf(class)
	if err != nil {
		return "", err
	}
	now := p.cfg.Clock.Now()
	f, err := p.find(ctx, c)
	if ctx.Err() != nil || errors.Is(err, ErrNotConnected) { // the conditions from before a restart stay
		return "", fmt.Errorf("resolve ClusterAPINodeClass %s: %w", c.Name, cmp.Or(ctx.Err(), err))
	}
	if err != nil {
		v1.SetCondition(c, clusterapiv1alpha1.ConditionManagementClusterReady, metav1.ConditionFalse, "OutOfReach", err.Error(), now)
		return clusterapiv1alpha1.ConditionManagementClusterReady + ": " + err.Error(), nil
	}
	v1.SetCondition(c, clusterapiv1alpha1.ConditionManagementClusterReady, metav1.ConditionTrue, "", "", now)
	c.Status.MachineDeployments = int32(len(f.Machines))
	status, reason := metav1.ConditionTrue, ""
	if problem = problemOf(c, f); problem != "" {
		status, reason = metav1.ConditionFalse, "NoneUsable"
	}
	v1.SetCondition(c, clusterapiv1alpha1.ConditionMachineDeploymentsReady, status, reason, cut(strings.Join(remarks(f, problem), "; ")), now)
	return problem, nil
}

// remarks lists the problems and hints for a class. The problem that makes it unusable comes first.
func remarks(f *assortment.Selection, problem string) []string {
	out := f.Remarks()
	if problem != "" {
		out = append([]string{problem}, slices.DeleteFunc(out, func(r string) bool { return r == problem })...)
	}
	return out
}

// problemOf returns the reason why no machines can be made with a class, "" if some can.
func problemOf(c *clusterapiv1alpha1.ClusterAPINodeClass, f *assortment.Selection) string {
	if c.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	return f.Problem()
}

// longestMessage is the largest length of a condition's message.
const longestMessage = 2000

func cut(text string) string {
	if len(text) <= longestMessage {
		return text
	}
	return strings.ToValidUTF8(text[:longestMessage-3], "") + "..."
}

// Catalog lists the instance types that can be made with the class.
func (p *Provider) Catalog(ctx context.Context, class provider.Class) ([]engine.InstanceType, error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	f, err := p.find(ctx, c)
	if err != nil {
		return nil, err
	}
	types, _ := assortment.Catalog(f.Machines)
	return types, nil
}

// Traits returns the properties of machines of the class that have not drifted.
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
	var sets contract.MachineSetList
	if err := m.Cached.List(ctx, &sets); err != nil {
		return nil, fmt.Errorf("list MachineSets: %w", err)
	}
	return f.Traits(c, pointers(sets.Items)), nil
}
