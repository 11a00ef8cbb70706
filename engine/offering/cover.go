package offering

import (
	"math"
	"slices"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
)

// Cover is a commitment with an unused part.
type Cover struct {
	kube.Commitment
	// Quota is the index of the packing's quota for the unused part, in Units; negative if that part cannot run out.
	Quota int
}

// sameCover reports whether both lists lead to the same options.
func sameCover(a, b []Cover) bool {
	return slices.EqualFunc(a, b, func(x, y Cover) bool { return x.Same(y.Commitment) && x.endless() == y.endless() })
}

func (c *Cover) endless() bool { return c.Quota < 0 }

// Units converts an amount of the commitment to whole units for quotas: machines, or millionths of USD per hour.
func (c *Cover) Units(amount float64) float64 {
	if c.Machines > 0 {
		return amount
	}
	return amount * 1e6
}

// addCovered adds the option once for each commitment that pays for it. It returns true if one of them cannot run out: then the option is not
// needed at its own price.
func (t *table) addCovered(o Option, model packing.Option) bool {
	if len(t.cover) == 0 {
		return false
	}
	model.Full = model.Price
	model.Price = (&engine.Offering{Price: o.Offering.Price * engine.CoveredPart}).NodePrice(t.overhead)
	from := len(t.options)
	for i := range t.cover {
		c := &t.cover[i]
		if _, ok := c.Takes(o.Kind.Name, o.Offering.KnownPrice()); !ok || !c.Covers(o.Offering, o.label) {
			continue
		}
		o.Commitment, model.Covered = c.Name, !c.endless()
		if c.endless() {
			t.options, t.model = append(t.options[:from], o), append(t.model[:from], model)
			return true
		}
		t.options, t.model = append(t.options, o), append(t.model, model)
	}
	return false
}

// cover makes the option draw on the commitment that pays for it.
func (p *Pool) cover(o *Option, option *packing.Option) {
	i := slices.IndexFunc(p.in.Cover, func(c Cover) bool { return c.Name == o.Commitment })
	c := &p.in.Cover[i]
	if c.endless() {
		return
	}
	amount, _ := c.Takes(o.Kind.Name, o.Offering.Price)
	units := max(1, int(math.Ceil(c.Units(amount)-1e-6)))
	option.Draws = append(slices.Clip(option.Draws), packing.Draw{Quota: c.Quota, Units: units})
	option.Listed = option.Listed && units <= p.in.Left(c.Quota)
}
