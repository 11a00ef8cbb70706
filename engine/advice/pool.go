package advice

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// isTypeKey reports whether the label describes the size or the family of a machine. Labels of properties that software depends on (devices,
// hypervisors, operating systems) and labels of users do not count.
func isTypeKey(key string) bool {
	switch key[strings.IndexByte(key, '/')+1:] {
	case "instance-type", "instance-category", "instance-family", "instance-generation", "instance-size", "instance-cpu", "instance-memory",
		"instance-cpu-manufacturer", "sku-name", "sku-family", "sku-series", "sku-version", "sku-cpu", "sku-memory":
		return key == corev1.LabelInstanceTypeStable || strings.Contains(key[:max(0, strings.IndexByte(key, '/'))], "karpenter")
	}
	return false
}

// trialsOf lists the trials, in the same order for the same input. Pools come first, the pools with the most expensive launches before the
// others. Then come preferences, workloads and, at last, pools without launches.
func trialsOf(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) []trial {
	spent := map[string]float64{}
	for _, l := range plan.Launches {
		spent[l.NodePool] += l.Price
	}
	pools := slices.DeleteFunc(kube.ByName(s.NodePools), func(p *v1.NodePool) bool { return !kube.PoolProblem(p, kube.ClassOf(s, p)).OK() })
	slices.SortStableFunc(pools, func(a, b *v1.NodePool) int { return cmp.Compare(spent[b.Name], spent[a.Name]) })
	var used, unused []trial
	soldBy := map[soldKey][]string{}
	for _, pool := range pools {
		if trials := poolTrials(s, opt, pool, soldBy); spent[pool.Name] > 0 {
			used = append(used, trials...)
		} else {
			unused = append(unused, trials...)
		}
	}
	first := min(len(used), 2*MostTries/3) // a third of the plans is left for preferences and workloads
	return slices.Concat(used[:first], preferenceTrials(s, opt, plan), workloadTrials(s, opt, plan), used[first:], unused)
}

// poolTrials lists the trials for the pool.
func poolTrials(s *engine.Snapshot, opt engine.Options, pool *v1.NodePool, soldBy map[soldKey][]string) []trial {
	var out []trial
	for _, c := range poolChanges(pool, kube.ClassOf(s, pool), soldBy) {
		c.Object = "NodePool " + pool.Name
		out = append(out, trial{c.Suggestion, func() *engine.Snapshot {
			changed := *s
			changed.NodePools = slices.Clone(s.NodePools)
			changed.NodePools[slices.Index(s.NodePools, pool)] = c.applied(pool)
			return &changed
		}, opt})
	}
	return out
}

// poolChange is a suggestion about a pool, with the change of its spec.
type poolChange struct {
	Suggestion
	change func(spec *v1.NodePoolSpec)
}

func (c *poolChange) applied(pool *v1.NodePool) *v1.NodePool {
	out := *pool
	c.change(&out.Spec)
	return &out
}

// Changed is a pool after a change that allows more.
type Changed struct {
	// Change describes the change, and Keys holds its labels; see Suggestion.
	Change string
	Keys   []string
	Pool   *v1.NodePool
}

// PoolChanges lists the changes of the pool that New tries, in order, whatever their savings.
func PoolChanges(s *engine.Snapshot, pool *v1.NodePool) (out []Changed) {
	class := kube.ClassOf(s, pool)
	if !kube.PoolProblem(pool, class).OK() {
		return nil
	}
	for _, c := range poolChanges(pool, class, map[soldKey][]string{}) {
		out = append(out, Changed{c.Change, c.Keys, c.applied(pool)})
	}
	return out
}

func poolChanges(pool *v1.NodePool, class *engine.Class, soldBy map[soldKey][]string) (out []poolChange) {
	add := func(x Suggestion, change func(spec *v1.NodePoolSpec)) { out = append(out, poolChange{x, change}) }
	addAllowed := func(x Suggestion) {
		x.Change = "allow " + strings.Join(x.Values, ", ")
		add(x, func(spec *v1.NodePoolSpec) {
			spec.Template.Spec.Requirements = allow(spec.Template.Spec.Requirements, x)
		})
	}
	for _, value := range missing(soldBy, pool, class, v1.CapacityTypeLabelKey) {
		addAllowed(Suggestion{Kind: CapacityType, Keys: []string{v1.CapacityTypeLabelKey}, Values: []string{value}})
	}
	for _, value := range missing(soldBy, pool, class, corev1.LabelArchStable) {
		addAllowed(Suggestion{Kind: Architecture, Keys: []string{corev1.LabelArchStable}, Values: []string{value}})
	}
	if zones := missing(soldBy, pool, class, corev1.LabelTopologyZone); len(zones) > 0 {
		addAllowed(Suggestion{Kind: Zones, Keys: []string{corev1.LabelTopologyZone}, Values: zones, Caution: "traffic between zones may cost"})
	}
	keys := typeKeysOf(pool)
	lists := [][]string{}
	for _, key := range keys {
		lists = append(lists, []string{key})
	}
	if len(keys) > 1 {
		lists = append(lists, keys)
	}
	for _, list := range lists {
		add(Suggestion{Kind: InstanceTypes, Keys: list, Change: "no requirement about " + strings.Join(list, ", "),
			Caution: "only if pods need no more of a machine than they request: its make, its disks and the model of its devices may be others"}, func(spec *v1.NodePoolSpec) {
			spec.Template.Spec.Requirements = open(spec.Template.Spec.Requirements, list)
		})
	}
	if len(pool.Spec.Limits) > 0 {
		add(Suggestion{Kind: Limits, Change: "raise its limits"}, func(spec *v1.NodePoolSpec) { spec.Limits = nil })
	}
	if kube.WeightOf(pool) > 0 {
		add(Suggestion{Kind: Weight, Change: "no weight: it is used before pools that may be cheaper"}, func(spec *v1.NodePoolSpec) { spec.Weight = nil })
	}
	return out
}

// soldKey is a label of the machines that a class sells.
type soldKey struct {
	class *engine.Class
	key   string
}

// missing lists, in order, the values of the label that the class sells and that the pool's requirements exclude. It returns none if the pool
// itself sets the label.
func missing(soldBy map[soldKey][]string, pool *v1.NodePool, class *engine.Class, key string) []string {
	if _, labelled := kube.PoolLabels(pool)[key]; labelled {
		return nil
	}
	by := soldKey{class, key}
	if _, known := soldBy[by]; !known {
		soldBy[by] = sold(class, key)
	}
	var out []string
	for _, value := range soldBy[by] {
		if !admits(pool, key, value) {
			out = append(out, value)
		}
	}
	return out
}

// sold lists, in order, the values of the label in the class's offerings, except sold out ones.
func sold(class *engine.Class, key string) []string {
	var out []string
	for i := range class.InstanceTypes {
		t := &class.InstanceTypes[i]
		for j := range t.Offerings {
			switch o := &t.Offerings[j]; {
			case o.SoldOut:
			case key == v1.CapacityTypeLabelKey:
				out = append(out, o.CapacityType)
			case key == corev1.LabelTopologyZone:
				out = append(out, o.Zone)
			default:
				out = append(out, t.Labels[key]...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// admits reports whether the pool's requirements about the label admit the value.
func admits(pool *v1.NodePool, key, value string) bool {
	return !slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r v1.Requirement) bool {
		e := kube.PoolExpression(r)
		return e.Key == key && !e.Admits(value, true)
	})
}

// allow adds the suggestion's values to the values that the requirements admit.
func allow(requirements []v1.Requirement, x Suggestion) []v1.Requirement {
	var out []v1.Requirement
	for _, r := range requirements {
		if v1.NormalizeLabel(r.Key) == x.Keys[0] {
			switch r.Operator {
			case v1.In:
				r.Values = slices.Concat(r.Values, x.Values)
			case v1.NotIn:
				r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return slices.Contains(x.Values, v) })
			}
		}
		out = append(out, r)
	}
	return out
}

// typeKeysOf lists, in order, the labels of sizes and families that the pool's requirements restrict.
func typeKeysOf(pool *v1.NodePool) []string {
	var out []string
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if key := v1.NormalizeLabel(r.Key); isTypeKey(key) && r.Operator != v1.Exists {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// open removes the requirements about the labels. A requirement with MinValues stays, with the operator Exists.
func open(requirements []v1.Requirement, keys []string) []v1.Requirement {
	var out []v1.Requirement
	for _, r := range requirements {
		if slices.Contains(keys, v1.NormalizeLabel(r.Key)) {
			if r.MinValues == nil {
				continue
			}
			r.Operator, r.Values = v1.Exists, nil
		}
		out = append(out, r)
	}
	return out
}
