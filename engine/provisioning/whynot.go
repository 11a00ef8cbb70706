package provisioning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// mostObstacles bounds the obstacles that are named for one pool, because a pod may ask for any number of things.
const mostObstacles = 8

// explain returns, pool by pool, why no machine can be started for a pod of the class.
func (an *answer) explain(class int, s *packing.Solution) []engine.Reason {
	c := an.Classes[class]
	if c.unmanned {
		return []engine.Reason{{Code: engine.NotOnManagedNodes}}
	}
	if host := c.namedHost(); host != "" {
		return []engine.Reason{engine.Reason{Code: engine.NoExistingNodeMatches, Need: host}.Bounded()}
	}
	if r := an.volumeTaken(c, s.World); !r.OK() {
		return []engine.Reason{r}
	}
	if r := an.noVolumeLeft(c, s.World); !r.OK() {
		return []engine.Reason{r}
	}
	var reasons []engine.Reason
	spare := an.spare(s)
	for i, pool := range an.Pools {
		list := an.obstacles(i, class, an.left(i, s), spare, s.World)
		for _, r := range list[:min(len(list), mostObstacles)] {
			r.NodePool = pool.NodePool.Name
			reasons = append(reasons, r.Bounded())
		}
	}
	weight := map[string]int{}
	for _, pool := range an.Pools {
		weight[pool.NodePool.Name] = pool.Model.Weight
	}
	slices.SortStableFunc(reasons, func(a, b engine.Reason) int {
		return cmp.Or(cmp.Compare(weight[b.NodePool], weight[a.NodePool]), cmp.Compare(a.NodePool, b.NodePool))
	})
	for _, note := range an.broken {
		reasons = append(reasons, note.Reason)
	}
	if len(reasons) == 0 {
		reasons = append(reasons, engine.Reason{Code: engine.NoNodePools})
	}
	if c.OnDemand {
		reasons = append(reasons, engine.Reason{Code: engine.OnDemandShare, Key: v1.OnDemandShareAnnotationKey})
	}
	return reasons
}

// obstacles returns the rules that keep a pod of the class off new machines of pool i: each rule that alone leaves no option, with the
// nearest miss. All of them are named, because a user who lifts one should not meet the next afterwards. If no rule alone does so, obstacles names
// the constraints that cannot be met together.
func (an *answer) obstacles(i, class int, left []int64, spare []int, world *topology.World) (out []engine.Reason) {
	c, pool := an.Classes[class], an.Pools[i]
	for i := range pool.Taints {
		if t := kube.Untolerated(c.Tolerations, pool.Taints[i:i+1]); t != nil {
			out = append(out, engine.Reason{Code: engine.TaintNotTolerated, Have: kube.TaintText(*t)})
		}
	}
	if len(pool.Options) == 0 {
		return append(out, pool.Emptiness())
	}
	var able bitset.Set
	for _, way := range offering.Without(pool.TolerantWays(&c.NodeConstraints), an.collisions(pool, c.Ports)) {
		if able == nil {
			able = bitset.New(len(pool.Options))
		}
		able.Or(way.Options)
	}
	if able == nil {
		var r []engine.Reason
		r, able = an.labelRefusals(pool, c)
		out = append(out, r...)
	}
	lacking, fitting := an.roomRefusals(pool, c, able)
	out = append(out, lacking...)
	between, supply := an.between(i, class, fitting, world), an.supplyRefusals(pool, fitting, left, spare)
	if len(out)+len(between)+len(supply) == 0 {
		supply = an.inDomains(i, class, fitting, left, spare, world)
	}
	if len(supply) > 0 && supply[0].Code == engine.MinValuesNotMet {
		between, supply = supply, between
	}
	out = slices.Concat(out, between, supply)
	if r := an.launchRefusal(pool, c); !r.OK() {
		if closed := optionsOf(c.Backoff, pool, an.Snapshot.Now, false); len(out) == 0 || closed != nil && fitting.Within(closed) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return []engine.Reason{together(pool, c.last().Rules)}
	}
	return out
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

// left returns the remainder of the limits of pool i after the plan's machines are started.
func (an *answer) left(i int, s *packing.Solution) []int64 {
	left := an.Packing.Pools[i].Left.Clone()
	for j := range s.New {
		if s.New[j].Pool == i {
			left.Add(an.Packing.Pools[i].Options[s.New[j].Chosen].Charge, -1)
		}
	}
	return left
}

// supplyRefusals returns why none of these suitable options is available. It returns nil if some are. Sold-out options come before the limit that
// the rest exceeds, because without the shortage the rest would not be needed. A quota of the cloud comes before both, because a user can ask for
// more of it.
func (an *answer) supplyRefusals(pool *offering.Pool, options bitset.Set, left []int64, spare []int) []engine.Reason {
	if hindered := an.hindered(pool, options, spare); !hindered.Empty() {
		rest := options.Clone()
		rest.AndNot(hindered)
		if rest.Empty() {
			return []engine.Reason{an.quotaRefusal(pool, hindered, spare)}
		}
		others := an.supplyRefusals(pool, rest, left, spare)
		if len(others) == 0 {
			return nil
		}
		return append([]engine.Reason{an.quotaRefusal(pool, hindered, spare)}, others...)
	}
	gone, within := bitset.New(len(pool.Options)), bitset.New(len(pool.Options))
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		if option := &pool.Model.Options[o]; !option.Listed {
			gone.Add(o)
			if option.Charge.Fits(left) {
				within.Add(o)
			}
		}
	}
	if options.Within(gone) {
		return []engine.Reason{{Code: engine.SoldOut, Have: pool.Names(gone, 5)}}
	}
	out, limits := pool.VarietyRefusals(options), an.limitRefusals(pool, options, left)
	if len(limits) > 0 && !within.Empty() {
		out = append(out, engine.Reason{Code: engine.SoldOut, Have: pool.Names(within, 5)})
	}
	return append(out, limits...)
}

// portRefusal names the DaemonSet that holds a port of the class on all machines that the pool has for it otherwise.
func (an *answer) portRefusal(pool *offering.Pool, c *podClass) engine.Reason {
	if len(c.Ports) == 0 || len(pool.TolerantWays(&c.NodeConstraints)) == 0 {
		return engine.Reason{}
	}
	for i := range an.daemons {
		d := &an.daemons[i]
		for _, port := range c.Ports {
			if !pool.Burdened[i].Empty() && slices.ContainsFunc(d.Ports, port.Collides) {
				return engine.Reason{Code: engine.PortTaken, Key: kube.PortText(port), Have: "DaemonSet " + d.Set.Namespace + "/" + d.Set.Name + " holds it"}
			}
		}
	}
	return engine.Reason{}
}

// labelRefusals returns the labels that alone leave no option, in the alternative that meets most, and the options that are left without these
// labels. If a DaemonSet holds a port of the class, it returns that port.
func (an *answer) labelRefusals(pool *offering.Pool, c *podClass) (out []engine.Reason, rest bitset.Set) {
	rest = bitset.Full(len(pool.Options))
	if r := an.portRefusal(pool, c); !r.OK() {
		rest = bitset.New(len(pool.Options))
		for _, way := range pool.TolerantWays(&c.NodeConstraints) {
			rest.Or(way.Options)
		}
		return []engine.Reason{r}, rest
	}
	met, misses, ok := pool.Nearest(c.Told, mostObstacles)
	switch {
	case !ok:
		return []engine.Reason{{Code: engine.RequirementsConflict, Have: "its node affinity has no term that any node could meet"}}, rest
	case len(misses) == 0:
		return []engine.Reason{{Code: engine.RequirementsConflict, Have: kube.TermText(met)}}, rest
	}
	if way, ok := pool.Way(met); ok {
		rest = way.Options
	}
	return misses, rest
}

// roomRefusals returns the resources of which no able option has enough, each with the greatest amount. If each remaining resource fits alone but all
// together are too much, it also returns those of which the nearest type lacks some. left holds the options that have enough of all other resources.
func (an *answer) roomRefusals(pool *offering.Pool, c *podClass, able bitset.Set) (out []engine.Reason, left bitset.Set) {
	if left = withRoom(pool, c.Request, able); !left.Empty() {
		return nil, left
	}
	request := c.Request.Clone()
	for d, need := range c.Request {
		if need <= 0 {
			continue
		}
		at := able.Next(0)
		for o := at; o >= 0; o = able.Next(o + 1) {
			if pool.Model.Options[o].Allocatable[d] > pool.Model.Options[at].Allocatable[d] {
				at = o
			}
		}
		if pool.Model.Options[at].Allocatable[d] < need {
			out, request[d] = append(out, an.roomRefusal(pool, c, able, d, at)), 0
		}
	}
	if left = withRoom(pool, request, able); left.Empty() {
		out = append(out, an.combinedRefusals(pool, c, request, able)...)
		left = withRoom(pool, request, able)
	}
	return slices.Compact(out), left
}

// withRoom returns the options that have enough for the request.
func withRoom(p *offering.Pool, request capacity.Vector, options bitset.Set) bitset.Set {
	out := bitset.New(len(p.Options))
	for o := options.Next(0); o >= 0; o = options.Next(o + 1) {
		if request.Fits(p.Model.Options[o].Allocatable) {
			out.Add(o)
		}
	}
	return out
}

// roomRefusal returns the reason that no able option has enough of resource d. The option with the index at has most of it.
func (an *answer) roomRefusal(pool *offering.Pool, c *podClass, able bitset.Set, d, at int) engine.Reason {
	name, need, most := corev1.ResourceName(an.Names.Name(d)), c.Request[d], pool.Model.Options[at].Allocatable[d]
	if kube.IsClaimed(name) {
		return an.deviceRefusal(pool, c, able)
	}
	bare, whole := int64(-1), at // the amount without DaemonSets
	taking := slices.ContainsFunc(an.daemons, func(d constraints.DaemonSet) bool { amount := d.Requests[name]; return amount.Sign() > 0 })
	for o := able.Next(0); taking && o >= 0; o = able.Next(o + 1) {
		taken, _ := an.takenByDaemons(pool, o, d)
		if n := pool.Model.Options[o].Allocatable[d] + taken; n > bare {
			bare, whole = n, o
		}
	}
	if name == kube.Nowhere {
		name = an.Names.Missing(c.requests)
		need = kube.Amount(name, c.requests[name])
	}
	r := lack(name, kube.Text(name, need), "")
	switch {
	case bare >= need:
		r.Have = "the largest type, " + an.besideDaemons(pool, whole, d)
	case most <= 0 && able.Len() < len(pool.Options):
		r.Have = "no instance type that has the labels it asks for has any"
	case most <= 0:
		r.Have = "no instance type has any"
	default:
		r.Have = fmt.Sprintf("the largest type, %s, has %s", pool.Options[at].Kind.Name, kube.Text(name, most))
	}
	return r
}

// combinedRefusals is for a request whose amounts each fit some type, while no type fits all of them. It returns the resources that the nearest type
// lacks, and takes them out of the request.
func (an *answer) combinedRefusals(pool *offering.Pool, c *podClass, request capacity.Vector, able bitset.Set) (out []engine.Reason) {
	best, at := 0.0, -1
	for o := able.Next(0); o >= 0; o = able.Next(o + 1) {
		worst := 0.0
		for d, need := range request {
			if have := pool.Model.Options[o].Allocatable[d]; need > have && need > 0 {
				worst = max(worst, 1-float64(max(0, have))/float64(need))
			}
		}
		if at < 0 || worst < best {
			best, at = worst, o
		}
	}
	for d, need := range request {
		if need <= 0 || need <= pool.Model.Options[at].Allocatable[d] {
			continue
		}
		request[d] = 0
		if name := corev1.ResourceName(an.Names.Name(d)); kube.IsClaimed(name) {
			out = append(out, an.deviceRefusal(pool, c, able))
		} else {
			out = append(out, lack(name, kube.Text(name, need), "the nearest type, "+an.besideDaemons(pool, at, d)))
		}
	}
	return out
}

// takenByDaemons returns how much of a resource DaemonSets' pods take of a machine of the option, and the DaemonSet that takes most.
func (an *answer) takenByDaemons(pool *offering.Pool, o, d int) (taken int64, who string) {
	most, name := int64(0), corev1.ResourceName(an.Names.Name(d))
	for i := range an.daemons {
		n := kube.Amount(name, an.daemons[i].Requests[name])
		if n <= 0 || !pool.Burdened[i].Has(o) {
			continue
		}
		if taken += n; n > most {
			most, who = n, an.daemons[i].Key
		}
	}
	return taken, who
}

// besideDaemons describes the amount of a resource that a machine of the option has, and the part of it that DaemonSets' pods take.
func (an *answer) besideDaemons(pool *offering.Pool, o, d int) string {
	name, kind := corev1.ResourceName(an.Names.Name(d)), pool.Options[o].Kind.Name
	taken, who := an.takenByDaemons(pool, o, d)
	have := pool.Model.Options[o].Allocatable[d] + taken
	if who == "" || name == corev1.ResourcePods {
		return fmt.Sprintf("%s, has %s", kind, kube.Text(name, have-taken))
	}
	return fmt.Sprintf("%s, has %s, of which DaemonSets' pods take %s, most of it DaemonSet %s", kind, kube.Text(name, have), kube.Text(name, taken), who)
}

// lack returns the reason of too little of a resource. Volumes are counted as resources, but have a reason of their own.
func lack(name corev1.ResourceName, need, have string) engine.Reason {
	if driver, ok := strings.CutPrefix(string(name), kube.AttachPrefix); ok {
		return engine.Reason{Code: engine.AttachLimit, Key: volume.LocalPoolText(driver), Need: need, Have: have}
	}
	return engine.Reason{Code: engine.NotEnoughResources, Key: string(name), Need: need, Have: have}
}

// limitRefusals returns the limits that even the smallest listed option exceeds. It returns nil if an option stays within all limits, or if no option
// is listed.
func (an *answer) limitRefusals(pool *offering.Pool, fitting bitset.Set, left []int64) (out []engine.Reason) {
	for d, n := range left {
		name := corev1.ResourceName(an.Names.Name(d))
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
			out = append(out, engine.Reason{
				Code: engine.LimitReached, Key: string(name), Need: kube.Text(name, least) + " for the smallest machine",
				Have: fmt.Sprintf("%s of %s is left", kube.Text(name, max(0, n)), limit.String()),
			})
		}
	}
	listed := false
	for o := fitting.Next(0); o >= 0; o = fitting.Next(o + 1) {
		option := &pool.Model.Options[o]
		if listed = listed || option.Listed; option.Listed && option.Charge.Fits(left) {
			return nil
		}
	}
	if listed && len(out) == 0 {
		out = append(out, engine.Reason{Code: engine.LimitReached, Key: "several resources", Need: "a machine", Have: "no type stays within all limits"})
	}
	return out
}
