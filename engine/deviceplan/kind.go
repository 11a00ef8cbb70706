package deviceplan

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
)

// kind holds the claims of pods that claim the same devices.
type kind struct {
	text    string
	number  int
	open    []*resourcev1.ResourceClaim // of one of the pods
	claims  []device.Claim
	problem engine.Reason
	// drivers holds the drivers whose devices a pod of the kind may get.
	drivers map[string]bool
	// counts is true if only the number of devices that each request selects matters. asks holds these numbers.
	counts bool
	asks   []ask
	// failed names a node's device for which a selector fails. It is nil if there is none.
	failed *failure
	// requests holds the resources that a pod of the kind takes of a machine.
	requests corev1.ResourceList
}

// ask is a number of devices that one selection must match.
type ask struct {
	selection selection
	group     int
	bit       int
	n         int
}

// selection is the condition of a request for each of its devices.
type selection struct {
	choice *device.Choice
	text   string // the answer for each shape, and the tolerations
}

// failure is a selector that fails for a device of a node.
type failure struct {
	nodes      []*corev1.Node
	expression string
	device     string
}

// mostExpressions is how many different selectors the claims of one namespace may have in one plan. Compiling a selector takes milliseconds,
// and a user who may create claims can write any number.
const mostExpressions = 100

// refuseExpressions refuses the claims of a namespace that exceed its limit of selectors. It counts the selectors in the order of p.kinds.
func (p *Plan) refuseExpressions() {
	room, all := map[string]map[string]bool{}, map[string]map[string]bool{} // by namespace
	add := func(to map[string]map[string]bool, namespace string, expressions []string) {
		if to[namespace] == nil {
			to[namespace] = map[string]bool{}
		}
		for _, e := range expressions {
			to[namespace][e] = true
		}
	}
	var refused []*kind
	for _, k := range p.kinds {
		namespace, expressions := k.open[0].Namespace, k.expressions()
		add(all, namespace, expressions)
		more := 0
		for _, e := range expressions {
			if !room[namespace][e] {
				more++
			}
		}
		if more > 0 && len(room[namespace])+more > mostExpressions {
			refused = append(refused, k)
			continue
		}
		add(room, namespace, expressions)
	}
	for _, k := range refused {
		k.problem = engine.Reason{Code: engine.TooComplex, Need: strconv.Itoa(len(k.expressions())), Have: strconv.Itoa(len(all[k.open[0].Namespace]))}
	}
}

// expressions lists the selectors of the kind's claims as they are written, each once.
func (k *kind) expressions() []string {
	var out []string
	for _, c := range k.open {
		out = append(out, dra.Expressions(c)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readKind reads the kind's claims.
func (p *Plan) readKind(k *kind) {
	for i, c := range k.open {
		claim, reason := p.model.Claim(c, p.classes)
		if reason != nil {
			k.problem = problemOf(reason, c.Name)
			return
		}
		claim.Name = strconv.Itoa(i)
		k.claims = append(k.claims, claim)
	}
}

// problemOf returns the reason for which no device can be planned for a claim.
func problemOf(r *device.Reason, name string) engine.Reason {
	switch r.Code {
	case dra.ClassMissing:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "DeviceClass " + r.What + " does not exist"}
	case dra.TemplateMissing:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "ResourceClaimTemplate " + r.What + ", which it is made from, does not exist"}
	case dra.ClaimMissing:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "it does not exist yet"}
	case dra.ClaimForeign:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "it was made for another pod"}
	case dra.ClaimLeaving:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "it is being deleted"}
	case dra.ClaimFull:
		return engine.Reason{Code: engine.ClaimNotReady, Key: name, Have: "as many pods use it as may"}
	}
	return notModelled(name + ": " + r.What)
}

func notModelled(what string) engine.Reason {
	return engine.Reason{Code: engine.FeatureNotSupported, Key: "dynamic resource allocation: resource claim " + what}
}

// answer returns the answer of a choice's selectors for a shape. It is the first answer other than Yes, and later selectors are not evaluated.
func (p *Plan) answer(c *device.Choice, shape int) device.Answer {
	for _, s := range c.Selectors {
		if a := p.facts.Answers[s][shape]; a != device.Yes {
			return a
		}
	}
	return device.Yes
}

// sortKinds determines which kinds only count devices, and sets the resources that pods of each kind request.
func (p *Plan) sortKinds() {
	odd := p.oddShapes()
	for _, k := range p.kinds {
		if k.problem.OK() {
			p.judge(k, odd)
		}
	}
	p.makeGroups()
	for _, k := range p.kinds {
		k.requests = corev1.ResourceList{}
		if !k.counts {
			k.requests[k.resource()] = *resource.NewQuantity(1, resource.DecimalSI)
			continue
		}
		for _, a := range k.asks {
			for _, mask := range p.groups[a.group].masks {
				if mask>>a.bit&1 == 1 {
					kube.AddList(k.requests, corev1.ResourceList{resourceOf(a.group, mask): *resource.NewQuantity(int64(a.n), resource.DecimalSI)})
				}
			}
		}
	}
}

// resource returns the resource that counts the pods of a kind which does more than count devices.
func (k *kind) resource() corev1.ResourceName {
	return corev1.ResourceName(kube.DevicesPrefix + "of-" + strconv.Itoa(k.number))
}

// oddShapes reports, for each shape, whether its devices are shared, have a request policy for a capacity, consume counters or are not modelled.
func (p *Plan) oddShapes() []bool {
	out := make([]bool, len(p.facts.Shapes))
	for i := range p.facts.Shapes {
		out[i] = p.facts.Shapes[i].Shared
		for _, c := range p.facts.Shapes[i].Capacities {
			out[i] = out[i] || c.Policy != nil
		}
	}
	for _, of := range []iter.Seq[[]device.Pool]{maps.Values(p.nodes), maps.Values(p.types), maps.Values(p.learned)} {
		for pools := range of {
			for i := range pools {
				for j := range pools[i].Devices {
					d := &pools[i].Devices[j]
					out[d.Shape] = out[d.Shape] || len(d.Consumes) > 0 || d.NotModelled != ""
				}
			}
		}
	}
	return out
}

// judge determines the drivers of a kind, and whether the kind only counts devices.
func (p *Plan) judge(k *kind, odd []bool) {
	k.drivers, k.counts = map[string]bool{}, true
	for i := range k.claims {
		c := &k.claims[i]
		k.counts = k.counts && len(c.Constraints) == 0
		total := 0
		for j := range c.Requests {
			for n := range c.Requests[j].Choices {
				ch := &c.Requests[j].Choices[n]
				total += ch.Count
				k.counts = k.counts && ch.Name == "" && !ch.All && !ch.Admin && len(ch.Capacity) == 0
				text := []byte(fmt.Sprint(ch.Tolerations, " "))
				for s := range p.facts.Shapes {
					a := p.answer(ch, s)
					text = append(text, '0'+byte(a))
					if a == device.Yes {
						k.drivers[p.facts.Shapes[s].Driver] = true
						k.counts = k.counts && !odd[s]
					}
				}
				k.asks = append(k.asks, ask{selection: selection{ch, string(text)}, n: ch.Count})
				if r := p.reachesSeveral(ch, k.open[i].Name); !r.OK() {
					k.problem = r
					return
				}
				p.findFailure(k, ch)
			}
		}
		k.counts = k.counts && total <= mostDevices
	}
}

// mostDevices is the largest number of devices of one claim.
const mostDevices = 32

// reachesSeveral refuses devices that several nodes reach, because a device that a plan gives to a pod on one node is taken on the other nodes
// too.
func (p *Plan) reachesSeveral(ch *device.Choice, name string) engine.Reason {
	for i := range p.several {
		pool := &p.several[i]
		for j := range pool.Devices {
			if p.answer(ch, pool.Devices[j].Shape) == device.Yes {
				return notModelled(name + " selects devices of pool " + pool.Driver + "/" + pool.Name + ", which several nodes reach")
			}
		}
	}
	return engine.Reason{}
}

// findFailure looks for a node's devices for which a selector fails. kube-scheduler cannot schedule the pod if it comes to such a device.
func (p *Plan) findFailure(k *kind, ch *device.Choice) {
	for _, node := range p.listed {
		pools := p.nodes[node.Name]
		for i := range pools {
			for j := range pools[i].Devices {
				d := &pools[i].Devices[j]
				if p.answer(ch, d.Shape) != device.Failed {
					continue
				}
				if k.failed == nil {
					at := slices.IndexFunc(ch.Selectors, func(s int) bool { return p.facts.Answers[s][d.Shape] == device.Failed })
					k.failed = &failure{expression: p.model.Expression(ch.Selectors[at]), device: pools[i].Driver + "/" + pools[i].Name + "/" + d.Name}
				}
				if !slices.Contains(k.failed.nodes, node) {
					k.failed.nodes = append(k.failed.nodes, node)
				}
			}
		}
	}
}
