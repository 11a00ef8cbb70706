package deviceplan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// Miss returns the devices that the need lacks on the nearest of these types, as the NodePool starts them. It returns an empty reason if one of
// the types serves the need.
func (p *Plan) Miss(n *Need, pool string, types []*engine.InstanceType) engine.Reason {
	if n.kind == nil {
		return engine.Reason{}
	}
	var nearest *device.Reason
	var at *engine.InstanceType
	for _, t := range types {
		pools := p.expected(pool, t)
		if len(pools) == 0 {
			continue
		}
		_, reason := device.Allocate(p.facts, pools, device.NewUsage(), n.kind.claims, 0)
		if reason == nil {
			return engine.Reason{}
		}
		if nearest == nil || nearer(reason, nearest) || !nearer(nearest, reason) && p.most(n.kind, reason, pool, t) > p.most(n.kind, nearest, pool, at) {
			nearest, at = reason, t
		}
	}
	out := engine.Reason{Code: engine.NoDevices, Key: strings.Join(n.names, ", ")}
	if nearest == nil {
		out.Need, out.Have = "devices", "of no instance type it is known which ones its drivers will publish"
		return out
	}
	out.Need, out.Have = p.words(n.kind, nearest, pool, at)
	return out
}

func nearer(a, b *device.Reason) bool {
	rank := func(r *device.Reason) int {
		return slices.Index([]device.Code{device.SelectorFailed, device.SelectorsLeaveTooFew, device.OnlyElsewhere, device.CapacityTooSmall, device.DevicesTainted, device.DevicesTaken, device.NotTogether}, r.Code)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Selector, b.Selector), cmp.Compare(a.Have, b.Have)) > 0
}

// most returns the largest capacity of a device of the type, among the capacities that the failing selector names. If several types miss the
// need alike, the type with the largest capacity counts as nearest.
func (p *Plan) most(k *kind, r *device.Reason, in string, t *engine.InstanceType) (most int64) {
	ch := choiceOf(k, r)
	if r.Selector < 0 || ch == nil {
		return 0
	}
	expression := p.model.Expression(ch.Selectors[r.Selector])
	for _, pool := range p.expected(in, t) {
		for i := range pool.Devices {
			for name, c := range p.facts.Shapes[pool.Devices[i].Shape].Capacities {
				if strings.Contains(expression, name) {
					most = max(most, c.Amount)
				}
			}
		}
	}
	return most
}

// words describes the needed devices, and the devices of the nearest type.
func (p *Plan) words(k *kind, r *device.Reason, in string, t *engine.InstanceType) (need, have string) {
	of := "the nearest, " + t.Name + ", "
	ch := choiceOf(k, r)
	need = engine.Plural(max(1, r.Need), "device")
	if r.Selector >= 0 && ch != nil && r.Selector < len(ch.Selectors) {
		expression := p.model.Expression(ch.Selectors[r.Selector])
		need += " with " + expression
		if shown := p.shown(in, t, expression); shown != "" {
			return need, of + "has " + shown
		}
	}
	switch r.Code {
	case device.SelectorsLeaveTooFew, device.OnlyElsewhere:
		return need, of + "has " + strconv.Itoa(r.Have)
	case device.SelectorFailed:
		return need, of + "is not known to have what the selector asks for"
	case device.CapacityTooSmall:
		return need + " with the capacity that it asks for", of + "has " + strconv.Itoa(r.Have)
	case device.NotTogether:
		return need + " that meet its constraints together", of + "has none"
	}
	return need, of + "does not: " + string(r.Code)
}

// choiceOf returns the choice that the reason is about.
func choiceOf(k *kind, r *device.Reason) *device.Choice {
	for i := range k.claims {
		if k.claims[i].Name != r.Claim {
			continue
		}
		for j := range k.claims[i].Requests {
			request := &k.claims[i].Requests[j]
			for n := range request.Choices {
				if name := request.Choices[n].Name; r.Request == request.Name && name == "" || r.Request == request.Name+"/"+name {
					return &request.Choices[n]
				}
			}
		}
	}
	return nil
}

// shown lists the capacities and attributes of the type's devices that the expression names.
func (p *Plan) shown(in string, t *engine.InstanceType, expression string) string {
	count, order := map[string]int{}, []string{}
	for _, pool := range p.expected(in, t) {
		for i := range pool.Devices {
			shape, parts := &p.facts.Shapes[pool.Devices[i].Shape], []string(nil)
			for _, name := range slices.Sorted(maps.Keys(shape.Capacities)) {
				if strings.Contains(expression, name) {
					parts = append(parts, name+" "+resource.NewMilliQuantity(shape.Capacities[name].Amount, resource.BinarySI).String())
				}
			}
			for _, name := range slices.Sorted(maps.Keys(shape.Attributes)) {
				if v := shape.Attributes[name]; v.Kind != device.Alike && strings.Contains(expression, name) {
					parts = append(parts, name+" "+v.Text)
				}
			}
			if text := strings.Join(parts, ", "); text != "" {
				if count[text] == 0 {
					order = append(order, text)
				}
				count[text]++
			}
		}
	}
	for i, text := range order {
		order[i] = fmt.Sprintf("%d with %s", count[text], text)
	}
	return engine.AtMost(order, 3)
}
