package provisioning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// explain says, pool by pool, why no machine can be started for a pod of the class: the first rule that leaves nothing,
// and the nearest miss.
func (p *Problem) explain(class int, s *packing.Solution) []engine.Reason {
	c := p.Classes[class]
	if c.unmanned {
		return []engine.Reason{{Code: engine.NotOnManagedNodes}}
	}
	if host := c.namedHost(); host != "" {
		return []engine.Reason{engine.Reason{Code: engine.NoExistingNodeMatches, Need: host}.Bounded()}
	}
	if r := p.volumeTaken(c, s.World); !r.OK() {
		return []engine.Reason{r}
	}
	if r := p.noVolumeLeft(c, s.World); !r.OK() {
		return []engine.Reason{r}
	}
	last := &c.levels[len(c.levels)-1]
	var reasons []engine.Reason
	spare := p.spare(s)
	for i, pool := range p.Pools {
		left := p.left(i, s)
		ways, backedOff := last.Ways.Pools[i], p.launchRefusal(pool, c)
		if !backedOff.OK() {
			ways = p.where(&c.NodeConstraints, c.Ports, nil, false).ways.Pools[i]
		}
		r, beside := p.refusal(pool, c, ways, left, spare)
		if r.OK() {
			r = backedOff
		}
		if r.OK() || r.Code == engine.LimitReached || r.Code == engine.QuotaExceeded {
			if between := p.between(i, class, s.World); !between.OK() {
				r = between
			}
		}
		if r.OK() {
			r, beside = p.inDomains(i, class, left, spare, s.World)
		}
		for _, r := range []engine.Reason{r, beside} {
			if r.NodePool = pool.NodePool.Name; !r.OK() {
				reasons = append(reasons, r.Bounded())
			}
		}
	}
	weight := map[string]int{}
	for _, pool := range p.Pools {
		weight[pool.NodePool.Name] = pool.Model.Weight
	}
	slices.SortStableFunc(reasons, func(a, b engine.Reason) int {
		return cmp.Or(cmp.Compare(weight[b.NodePool], weight[a.NodePool]), cmp.Compare(a.NodePool, b.NodePool))
	})
	for _, note := range p.broken {
		reasons = append(reasons, note.Reason)
	}
	if len(reasons) == 0 {
		reasons = append(reasons, engine.Reason{Code: engine.NoNodePools})
	}
	return reasons
}

// namedHost returns the hostname that every alternative of the class asks for, "" if there is none.
func (c *podClass) namedHost() string {
	name := ""
	for _, term := range c.Told {
		i := slices.IndexFunc(term, func(e requirement.Expression) bool {
			return (e.Key == corev1.LabelHostname || e.Key == kube.NodeNameKey) && e.Op == requirement.In
		})
		if i < 0 {
			return ""
		}
		name = strings.Join(term[i].Values, ",")
	}
	return name
}

// left is what the limits of pool i leave once the plan's machines are started.
func (p *Problem) left(i int, s *packing.Solution) []int64 {
	left := p.Packing.Pools[i].Left.Clone()
	for j := range s.New {
		if s.New[j].Pool == i {
			left.Add(p.Packing.Pools[i].Options[s.New[j].Chosen].Charge, -1)
		}
	}
	return left
}

// refusal says why no machine of the pool can run a pod of the class, whatever other pods there are; the zero Reason means that
// one could.
func (p *Problem) refusal(pool *offering.Pool, c *podClass, ways []packing.Way, left []int64, spare []int) (first, beside engine.Reason) {
	if t := kube.Untolerated(c.Tolerations, pool.Taints); t != nil {
		return engine.Reason{Code: engine.TaintNotTolerated, Have: kube.TaintText(*t)}, engine.Reason{}
	}
	if len(pool.Options) == 0 {
		return pool.Emptiness(), engine.Reason{}
	}
	if len(ways) == 0 {
		if r := p.portRefusal(pool, c); !r.OK() {
			return r, engine.Reason{}
		}
		return p.labelRefusal(pool, c), engine.Reason{}
	}
	able := bitset.New(len(pool.Options))
	for _, w := range ways {
		able.Or(w.Options)
	}
	fitting := bitset.New(len(pool.Options))
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		if c.Request.Fits(pool.Model.Options[o].Allocatable) {
			fitting.Add(o)
		}
	}
	if fitting.Empty() {
		return p.roomRefusal(pool, c, able), engine.Reason{}
	}
	return p.supplyRefusal(pool, fitting, left, spare)
}

// supplyRefusal says why none of these options, which would do, can be had; the zero Reason means that some can. What is sold out
// comes first, and beside it the limit that the rest is above: without the shortage there would be no need of the rest. Where a quota
// of the cloud's is in the way, it comes before both: somebody can ask for more of it.
func (p *Problem) supplyRefusal(pool *offering.Pool, options bitset.Set, left []int64, spare []int) (first, beside engine.Reason) {
	gone, within := bitset.New(len(pool.Options)), bitset.New(len(pool.Options))
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		if option := &pool.Model.Options[o]; !option.Listed {
			gone.Add(o)
			if option.Charge.Fits(left) {
				within.Add(o)
			}
		}
	}
	if hindered := p.hindered(pool, options, spare); !hindered.Empty() {
		rest := options.Clone()
		rest.AndNot(hindered)
		if !rest.Empty() {
			first, beside = p.supplyRefusal(pool, rest, left, spare)
		}
		if rest.Empty() || !first.OK() {
			first, beside = p.quotaRefusal(pool, hindered, spare), first
		}
		return first, beside
	}
	if options.Within(gone) {
		return engine.Reason{Code: engine.SoldOut, Have: pool.Names(gone, 5)}, engine.Reason{}
	}
	if r := pool.VarietyRefusal(options); !r.OK() {
		return r, engine.Reason{}
	}
	limit := p.limitRefusal(pool, options, left)
	if limit.OK() || within.Empty() {
		return limit, engine.Reason{}
	}
	return engine.Reason{Code: engine.SoldOut, Have: pool.Names(within, 5)}, limit
}

// portRefusal names the DaemonSet that holds a port of the class on the machines that the pool has for it otherwise.
func (p *Problem) portRefusal(pool *offering.Pool, c *podClass) engine.Reason {
	if len(c.Ports) == 0 || len(pool.Ways(&c.NodeConstraints)) == 0 {
		return engine.Reason{}
	}
	for i := range p.daemons {
		d := &p.daemons[i]
		for _, port := range c.Ports {
			if !pool.Burdened[i].Empty() && slices.ContainsFunc(d.Ports, port.Collides) {
				return engine.Reason{Code: engine.PortTaken, Key: kube.PortText(port), Have: "DaemonSet " + d.Set.Namespace + "/" + d.Set.Name + " holds it"}
			}
		}
	}
	return engine.Reason{}
}

// labelRefusal finds the first label that leaves nothing by itself, in the alternative that gets furthest.
func (p *Problem) labelRefusal(pool *offering.Pool, c *podClass) engine.Reason {
	best := engine.Reason{Code: engine.RequirementsConflict, Have: "its node affinity has no term that any node could meet"}
	furthest := -1
	for _, term := range c.Told {
		met := 0
		var miss engine.Reason
		for _, e := range term {
			r := pool.Missing(e)
			if r.OK() {
				met++
			} else if miss.OK() {
				miss = r
			}
		}
		if miss.OK() {
			miss = engine.Reason{Code: engine.RequirementsConflict, Have: kube.TermText(term)}
		}
		if met > furthest {
			furthest, best = met, miss
		}
	}
	return best
}

// roomRefusal names the resource that no able option has enough of, with the largest there is.
func (p *Problem) roomRefusal(pool *offering.Pool, c *podClass, able bitset.Set) engine.Reason {
	for d, need := range c.Request {
		if need <= 0 {
			continue
		}
		name := corev1.ResourceName(p.Names.Name(d))
		most, at := int64(-1), -1
		for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
			if n := pool.Model.Options[o].Allocatable[d]; n > most {
				most, at = n, o
			}
		}
		if most >= need {
			continue
		}
		if kube.IsClaimed(name) {
			return p.deviceRefusal(pool, c, able)
		}
		bare, whole := int64(-1), -1 // without DaemonSets
		for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
			taken, _ := p.takenByDaemons(pool, o, d)
			if n := pool.Model.Options[o].Allocatable[d] + taken; n > bare {
				bare, whole = n, o
			}
		}
		if name == kube.Nowhere {
			name = p.Names.Missing(c.requests)
			need = kube.Amount(name, c.requests[name])
		}
		r := lack(name, kube.Text(name, need), "")
		switch {
		case bare >= need:
			r.Have = "the largest type, " + p.besideDaemons(pool, whole, d)
		case most <= 0 && able.Len() < len(pool.Options):
			r.Have = "no instance type that has the labels it asks for has any"
		case most <= 0:
			r.Have = "no instance type has any"
		default:
			r.Have = fmt.Sprintf("the largest type, %s, has %s", pool.Options[at].Kind.Name, kube.Text(name, most))
		}
		return r
	}
	return p.combinedRefusal(pool, c, able)
}

// combinedRefusal is for pods whose every single request fits some type, but not all together: it names the type that
// lacks the least.
func (p *Problem) combinedRefusal(pool *offering.Pool, c *podClass, able bitset.Set) engine.Reason {
	best, at, lacking := 0.0, -1, 0
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		worst, where := 0.0, 0
		for d, need := range c.Request {
			have := pool.Model.Options[o].Allocatable[d]
			if need > have && need > 0 {
				if miss := 1 - float64(max(0, have))/float64(need); miss > worst {
					worst, where = miss, d
				}
			}
		}
		if at < 0 || worst < best {
			best, at, lacking = worst, o, where
		}
	}
	name := corev1.ResourceName(p.Names.Name(lacking))
	if kube.IsClaimed(name) {
		return p.deviceRefusal(pool, c, able)
	}
	return lack(name, kube.Text(name, c.Request[lacking]), "the nearest type that has enough of the rest, "+p.besideDaemons(pool, at, lacking))
}

// takenByDaemons is how much of a resource DaemonSets' pods take of a machine of the option, and which takes most.
func (p *Problem) takenByDaemons(pool *offering.Pool, o, d int) (taken int64, who string) {
	most, name := int64(0), corev1.ResourceName(p.Names.Name(d))
	for i := range p.daemons {
		n := kube.Amount(name, p.daemons[i].Requests[name])
		if n <= 0 || !pool.Burdened[i].Has(o) {
			continue
		}
		if taken += n; n > most {
			most, who = n, p.daemons[i].Key
		}
	}
	return taken, who
}

// besideDaemons says how much of a resource a machine of the option has, and what DaemonSets' pods take of that.
func (p *Problem) besideDaemons(pool *offering.Pool, o, d int) string {
	name, kind := corev1.ResourceName(p.Names.Name(d)), pool.Options[o].Kind.Name
	taken, who := p.takenByDaemons(pool, o, d)
	have := pool.Model.Options[o].Allocatable[d] + taken
	if who == "" || name == corev1.ResourcePods {
		return fmt.Sprintf("%s, has %s", kind, kube.Text(name, have-taken))
	}
	return fmt.Sprintf("%s, has %s, of which DaemonSets' pods take %s, most of it DaemonSet %s", kind, kube.Text(name, have), kube.Text(name, taken), who)
}

// lack says that there is too little of a resource; volumes are counted as resources, but are something else to people.
func lack(name corev1.ResourceName, need, have string) engine.Reason {
	if driver, ok := strings.CutPrefix(string(name), kube.AttachPrefix); ok {
		return engine.Reason{Code: engine.AttachLimit, Key: volume.LocalPoolText(driver), Need: need, Have: have}
	}
	return engine.Reason{Code: engine.NotEnoughResources, Key: string(name), Need: need, Have: have}
}

// limitRefusal names the limit that keeps even the smallest fitting option from being started; the zero Reason means that some
// option stays within all of them.
func (p *Problem) limitRefusal(pool *offering.Pool, fitting bitset.Set, left []int64) engine.Reason {
	for d, n := range left {
		name := corev1.ResourceName(p.Names.Name(d))
		limit, ok := pool.NodePool.Spec.Limits[name]
		if !ok {
			continue
		}
		least := int64(-1)
		for o := fitting.Next(0); o >= 0; o = fitting.Next(o + 1) {
			if charge := pool.Model.Options[o].Charge[d]; pool.Model.Options[o].Listed && (least < 0 || charge < least) {
				least = charge
			}
		}
		if least > n {
			return engine.Reason{
				Code: engine.LimitReached, Key: string(name), Need: kube.Text(name, least),
				Have: fmt.Sprintf("%s of %s is left", kube.Text(name, max(0, n)), limit.String()),
			}
		}
	}
	for o := fitting.Next(0); o >= 0; o = fitting.Next(o + 1) {
		if option := &pool.Model.Options[o]; option.Listed && option.Charge.Fits(left) {
			return engine.Reason{}
		}
	}
	return engine.Reason{Code: engine.LimitReached, Key: "several resources", Need: "a machine", Have: "no type stays within all limits"}
}
