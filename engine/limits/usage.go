// Package limits counts launches against the limits of NodePools and the quotas of clouds, right before the machines are started.
package limits

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

// Usage is how much of the limits and quotas is used by machines, and by the launches that Take has counted.
type Usage struct {
	s        *engine.Snapshot
	machines []*inventory.Machine
	cache    *inventory.Cache
	types    kube.TypeIndex
	used     map[string]corev1.ResourceList // by pool, as far as asked
	quotas   map[string]engine.Quota        // what they leave; nil until it is asked
}

// NewUsage is the usage of the snapshot's machines. No launch is counted yet.
func NewUsage(s *engine.Snapshot, pods *inventory.PodIndex, machines []*inventory.Machine) *Usage {
	return &Usage{s: s, machines: machines, cache: pods.Cache, types: pods.Cache.TypesOf(s), used: map[string]corev1.ResourceList{}}
}

// Take counts the launch if quotas and limits have room for it, or says which of them has not.
func (u *Usage) Take(l engine.Launch, pool *v1.NodePool) engine.Reason {
	uses, r := u.quotaUses(l, pool)
	if r.OK() {
		r = u.takeLimits(l, pool)
	}
	if r.OK() {
		for _, use := range uses {
			q := u.quotas[use.Quota]
			q.Left -= use.Units
			u.quotas[use.Quota] = q
		}
	}
	return r
}

// quotaUses is how much of each quota the launch uses: as much as the cheapest of its offerings for which the quotas have room. The cloud is
// asked for that offering first. If it starts another one, the machine counts as that one once it is launched.
func (u *Usage) quotaUses(l engine.Launch, pool *v1.NodePool) (uses []engine.QuotaUse, refused engine.Reason) {
	if u.quotas == nil {
		u.quotas = u.cache.QuotasOf(u.s, u.machines)
	}
	if len(u.quotas) == 0 {
		return nil, refused
	}
	for _, id := range l.Offerings {
		t := u.types.Find(pool.Spec.Template.Spec.NodeClassRef, pool.Name, id.InstanceType)
		if t == nil {
			continue
		}
		offering := t.Find(id.OfferingID)
		if offering == nil {
			continue
		}
		uses = offering.Quotas
		short := slices.IndexFunc(uses, func(use engine.QuotaUse) bool { q, known := u.quotas[use.Quota]; return known && use.Units > q.Left })
		if short < 0 {
			return uses, engine.Reason{}
		}
		if refused.OK() {
			q := u.quotas[uses[short].Quota]
			refused = provisioning.QuotaReason(q, q.Left, uses[short].Units)
			refused.NodePool = pool.Name
		}
	}
	return nil, refused
}

// takeLimits counts the largest listed type of the launch against the pool's limits.
func (u *Usage) takeLimits(l engine.Launch, pool *v1.NodePool) engine.Reason {
	if len(pool.Spec.Limits) == 0 {
		return engine.Reason{}
	}
	used, ok := u.used[pool.Name]
	if !ok {
		used = inventory.PoolUsage(u.machines, pool.Name)
	}
	most := corev1.ResourceList{v1.ResourceNodes: kube.Quantity(v1.ResourceNodes, 1)}
	for _, name := range l.InstanceTypes {
		if t := u.types.Find(pool.Spec.Template.Spec.NodeClassRef, pool.Name, name); t != nil {
			kube.MaxList(most, t.Capacity)
		}
	}
	with := used.DeepCopy()
	kube.AddList(with, most)
	for _, name := range slices.Sorted(maps.Keys(pool.Spec.Limits)) {
		limit, sum := pool.Spec.Limits[name], with[name]
		if sum.Cmp(limit) > 0 {
			return engine.Reason{
				Code: engine.LimitReached, NodePool: pool.Name, Key: string(name), Need: sum.String() + " in all",
				Have: "the limit is " + limit.String(),
			}
		}
	}
	u.used[pool.Name] = with
	return engine.Reason{}
}

// CountLeaving also counts the machines of the pool whose NodeClaims are being deleted, because they still exist. It has to be called before
// the first launch of the pool; later calls do nothing.
func (u *Usage) CountLeaving(pool string) {
	if _, counted := u.used[pool]; counted {
		return
	}
	used := inventory.PoolUsage(u.machines, pool)
	for _, m := range u.machines {
		if m.Claim != nil && m.Claim.DeletionTimestamp != nil && m.Pool() == pool {
			kube.AddList(used, corev1.ResourceList{v1.ResourceNodes: kube.Quantity(v1.ResourceNodes, 1)})
		}
	}
	u.used[pool] = used
}
