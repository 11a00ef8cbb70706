package dra

import (
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine/device"
)

// Codes for claims that cannot be read, beside those of device.Allocate.
const (
	ClassMissing device.Code = "ClassMissing" // What names a DeviceClass that does not exist
)

// Classes returns the DeviceClasses by name.
func Classes(list []*resourcev1.DeviceClass) map[string]*resourcev1.DeviceClass {
	out := make(map[string]*resourcev1.DeviceClass, len(list))
	for _, c := range list {
		out[c.Name] = c
	}
	return out
}

// Claim reads the requests of a claim, with the selectors of its classes.
func (m *Model) Claim(c *resourcev1.ResourceClaim, classes map[string]*resourcev1.DeviceClass) (device.Claim, *device.Reason) {
	out := device.Claim{Name: c.Name}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		request := device.Request{Name: r.Name}
		refuse := func(choice string, code device.Code, what string) (device.Claim, *device.Reason) {
			name := r.Name
			if choice != "" {
				name += "/" + choice
			}
			return device.Claim{}, &device.Reason{Code: code, Claim: c.Name, Request: name, Selector: -1, What: what}
		}
		asks := asksOf(r)
		if len(asks) == 0 {
			return refuse("", device.NotModelled, "a request that asks neither exactly nor for the first available")
		}
		for _, ask := range asks {
			choice, code, what := m.choice(ask, classes)
			if code != "" {
				return refuse(ask.Name, code, what)
			}
			request.Choices = append(request.Choices, choice)
		}
		out.Requests = append(out.Requests, request)
	}
	for i := range c.Spec.Devices.Constraints {
		k := &c.Spec.Devices.Constraints[i]
		constraint := device.Constraint{Requests: k.Requests, Distinct: k.MatchAttribute == nil}
		switch {
		case k.MatchAttribute != nil:
			constraint.Attribute = string(*k.MatchAttribute)
		case k.DistinctAttribute != nil:
			constraint.Attribute = string(*k.DistinctAttribute)
		default:
			return device.Claim{}, &device.Reason{Code: device.NotModelled, Claim: c.Name, Selector: -1, What: "a constraint other than matchAttribute and distinctAttribute"}
		}
		out.Constraints = append(out.Constraints, constraint)
	}
	return out, nil
}

// Expressions lists the selectors of the claim's requests, unchanged.
func Expressions(c *resourcev1.ResourceClaim) []string {
	var out []string
	for i := range c.Spec.Devices.Requests {
		for _, a := range asksOf(&c.Spec.Devices.Requests[i]) {
			for _, s := range a.Selectors {
				if s.CEL != nil {
					out = append(out, s.CEL.Expression)
				}
			}
		}
	}
	return out
}

// An ask is a request, or one of its choices: an exact request has no choice name.
type ask struct {
	resourcev1.DeviceSubRequest
	admin bool
}

func asksOf(r *resourcev1.DeviceRequest) []ask {
	if e := r.Exactly; e != nil {
		return []ask{{resourcev1.DeviceSubRequest{DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode,
			Count: e.Count, Tolerations: e.Tolerations, Capacity: e.Capacity}, truth(e.AdminAccess)}}
	}
	out := make([]ask, 0, len(r.FirstAvailable))
	for _, sub := range r.FirstAvailable {
		out = append(out, ask{DeviceSubRequest: sub})
	}
	return out
}

// choice reads an ask, or returns the code and text of its problem.
func (m *Model) choice(a ask, classes map[string]*resourcev1.DeviceClass) (out device.Choice, code device.Code, what string) {
	class := classes[a.DeviceClassName]
	if class == nil {
		return out, ClassMissing, a.DeviceClassName
	}
	out = device.Choice{Name: a.Name, Count: int(a.Count), Admin: a.admin}
	switch a.AllocationMode {
	case resourcev1.DeviceAllocationModeAll:
		out.All = true
	case resourcev1.DeviceAllocationModeExactCount, "":
		out.Count = max(1, out.Count)
	default:
		return out, device.NotModelled, "allocation mode " + string(a.AllocationMode)
	}
	for _, list := range [][]resourcev1.DeviceSelector{class.Spec.Selectors, a.Selectors} {
		for i := range list {
			if list[i].CEL == nil {
				return out, device.NotModelled, "a selector that is no CEL expression"
			}
			out.Selectors = append(out.Selectors, m.selector(list[i].CEL.Expression))
		}
	}
	for _, t := range a.Tolerations {
		toleration := device.Toleration{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
		switch t.Operator {
		case "", resourcev1.DeviceTolerationOpEqual:
		case resourcev1.DeviceTolerationOpExists:
			toleration.Exists = true
		default: // tolerates nothing
			continue
		}
		out.Tolerations = append(out.Tolerations, toleration)
	}
	if a.Capacity != nil {
		if out.Capacity, what = amountsOf(a.Capacity.Requests); what != "" {
			return out, device.NotModelled, what
		}
	}
	return out, "", ""
}

// Allocated reads the allocated devices from the claims' status. A claim that only leaving pods hold counts as deallocated.
func Allocated(claims []*resourcev1.ResourceClaim, leaving func(resourcev1.ResourceClaimConsumerReference) bool) *device.Usage {
	state := device.NewUsage()
	for _, c := range claims {
		if c.Status.Allocation == nil || onlyLeaving(c, leaving) {
			continue
		}
		for i := range c.Status.Allocation.Devices.Results {
			r := &c.Status.Allocation.Devices.Results[i]
			id := device.ID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			switch {
			case truth(r.AdminAccess): // does not take the device
			case r.ShareID != nil:
				consumed, _ := amountsOf(r.ConsumedCapacity)
				state.Share(id, consumed)
			default:
				state.Take(id)
			}
		}
	}
	return state
}

func onlyLeaving(c *resourcev1.ResourceClaim, leaving func(resourcev1.ResourceClaimConsumerReference) bool) bool {
	if leaving == nil || len(c.Status.ReservedFor) == 0 {
		return false
	}
	for _, consumer := range c.Status.ReservedFor {
		if !leaving(consumer) {
			return false
		}
	}
	return true
}
