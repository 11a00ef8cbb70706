package oracle

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// This file checks the rules of clouds and pools for launches, which kube-scheduler does not know.

// purchases records launches that cannot be bought as planned.
func (r *replay) purchases() {
	used := map[string]int{}
	for i := range r.plan.Launches {
		l := &r.plan.Launches[i]
		pool := r.pool(l.NodePool)
		if pool == nil || len(l.Offerings) == 0 {
			r.refuseLaunch(l, "Pool", fmt.Sprintf("pool %s known: %t, %d offerings", l.NodePool, pool != nil, len(l.Offerings)))
			continue
		}
		sale := maps.Collect(r.onSale(pool))
		for _, o := range l.Offerings {
			if price, ok := sale[o.OfferingID]; !ok || price != o.Price {
				r.refuseLaunch(l, "Offering", fmt.Sprintf("the pool cannot buy %s at %g", o.OfferingID, o.Price))
			}
		}
		used[l.Offerings[0].Reservation]++
		r.variety(l, pool)
	}
	r.reservations(used)
	for _, pool := range r.snapshot.NodePools {
		r.limits(pool)
	}
}

func (r *replay) refuseLaunch(l *engine.Launch, who, message string) {
	r.object(0, engine.PodID{}, nodeNameOf(l), who, message)
}

func (r *replay) pool(name string) *v1.NodePool {
	for _, p := range r.snapshot.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// onSale lists the offerings that the pool may buy now, with their prices.
func (r *replay) onSale(pool *v1.NodePool) iter.Seq2[engine.OfferingID, float64] {
	return func(yield func(engine.OfferingID, float64) bool) {
		for _, t := range r.types(pool.Spec.Template.Spec.NodeClassRef) {
			for _, o := range t.Offerings {
				id := engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
				if o.SoldOut || o.Reservation != "" && o.Slots == 0 || !permits(pool, machineLabels(pool, t, o)) {
					continue
				}
				if !yield(id, o.Price) {
					return
				}
			}
		}
	}
}

// types lists the instance types of a class.
func (r *replay) types(ref *v1.NodeClassReference) []*engine.InstanceType {
	var out []*engine.InstanceType
	for i := range r.snapshot.Classes {
		class := &r.snapshot.Classes[i]
		for j := range class.InstanceTypes {
			if ref != nil && class.Ref == *ref {
				out = append(out, &class.InstanceTypes[j])
			}
		}
	}
	return out
}

// permits reports whether the pool's requirements admit a machine with these labels. A missing label can have any value.
func permits(pool *v1.NodePool, labels map[string]string) bool {
	return !slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(q v1.Requirement) bool {
		value, there := labels[q.Key]
		switch q.Operator {
		case v1.In:
			return there && !slices.Contains(q.Values, value)
		case v1.NotIn:
			return slices.Contains(q.Values, value)
		case v1.DoesNotExist:
			return there
		case v1.Gt, v1.Lt:
			have, err := strconv.Atoi(value)
			want, _ := strconv.Atoi(q.Values[0])
			return there && (err != nil || q.Operator == v1.Gt && have <= want || q.Operator == v1.Lt && have >= want)
		}
		return false
	})
}

// variety checks the launch against the pool's minValues.
func (r *replay) variety(l *engine.Launch, pool *v1.NodePool) {
	for _, q := range pool.Spec.Template.Spec.Requirements {
		if q.MinValues == nil || l.MinValuesRelaxed {
			continue
		}
		values := map[string]bool{}
		for _, o := range l.Offerings {
			if node, _ := r.judge.predict(r.snapshot, l, o.OfferingID); node != nil && node.Labels[q.Key] != "" {
				values[node.Labels[q.Key]] = true
			}
		}
		if len(values) < *q.MinValues {
			r.refuseLaunch(l, "MinValues", fmt.Sprintf("%d values of %s, the pool asks for %d", len(values), q.Key, *q.MinValues))
		}
	}
}

// reservations checks the number of launches against the free slots in the catalog.
func (r *replay) reservations(used map[string]int) {
	slots := map[string]int{}
	for i := range r.snapshot.Classes {
		for _, t := range r.snapshot.Classes[i].InstanceTypes {
			for _, o := range t.Offerings {
				slots[o.Reservation] = o.Slots
			}
		}
	}
	for i := range r.plan.Launches {
		l := &r.plan.Launches[i]
		name := l.Offerings[0].Reservation
		if name != "" && used[name] > slots[name] {
			r.refuseLaunch(l, "Reservation", fmt.Sprintf("%d launches draw from %s, which has %d slots", used[name], name, slots[name]))
		}
	}
}

// limits checks the pool's machines and launches against its limits. For a machine with several possible types, it counts the largest amount of
// each resource.
func (r *replay) limits(pool *v1.NodePool) {
	total := corev1.ResourceList{}
	for _, c := range r.snapshot.NodeClaims {
		if c.Labels[v1.NodePoolLabelKey] != pool.Name || isLeaving(c) {
			continue
		}
		most := c.Status.Capacity
		if len(most) == 0 {
			for _, o := range openOfferings(r.snapshot, c) {
				most = atLeast(most, r.capacity(pool, o.InstanceType))
			}
		}
		plus(total, most)
	}
	launched := ""
	for i := range r.plan.Launches {
		l := &r.plan.Launches[i]
		if l.NodePool != pool.Name {
			continue
		}
		launched = nodeNameOf(l)
		var most corev1.ResourceList
		for _, o := range l.Offerings {
			most = atLeast(most, r.capacity(pool, o.InstanceType))
		}
		plus(total, most)
	}
	if launched == "" {
		return // the existing machines alone may exceed the limits
	}
	for _, name := range slices.Sorted(maps.Keys(pool.Spec.Limits)) {
		limit, have := pool.Spec.Limits[name], total[name]
		if have.Cmp(limit) > 0 {
			r.object(0, engine.PodID{}, launched, "Limits", fmt.Sprintf("pool %s may come to %s %s, its limit is %s", pool.Name, have.String(), name, limit.String()))
		}
	}
}

// capacity returns the amounts that a machine of the type counts against limits.
func (r *replay) capacity(pool *v1.NodePool, name string) corev1.ResourceList {
	for _, t := range r.types(pool.Spec.Template.Spec.NodeClassRef) {
		if t.Name == name {
			list := t.Capacity.DeepCopy()
			list[v1.ResourceNodes] = count(1)
			return list
		}
	}
	return nil
}

// atLeast returns the larger amount of each resource.
func atLeast(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range b {
		if have, ok := out[name]; !ok || have.Cmp(q) < 0 {
			out[name] = q
		}
	}
	return out
}

// plus adds the second list to the first.
func plus(total, list corev1.ResourceList) {
	for name, q := range list {
		sum := total[name]
		sum.Add(q)
		total[name] = sum
	}
}
