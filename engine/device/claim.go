package device

// A Claim requests devices that are allocated together.
type Claim struct {
	Name        string
	Requests    []Request
	Constraints []Constraint
}

// A Request is one part of a claim.
type Request struct {
	Name string
	// Choices has one element without a name, or the named ones of firstAvailable: the first possible one counts.
	Choices []Choice
}

// A Choice is one way to meet a request.
type Choice struct {
	Name string
	// Selectors are row numbers in Facts.Answers: the class's selectors, then the request's.
	Selectors []int
	// Count is the number of devices; All means every matching device, and at least one.
	Count int
	All   bool
	// Admin requests access to devices even if other claims have them.
	Admin       bool
	Tolerations []Toleration
	// Capacity is how much is asked of each device.
	Capacity map[string]int64
}

// A Toleration allows devices with a taint.
type Toleration struct {
	// An empty Key or Effect matches all keys or effects.
	Key, Value, Effect string
	// Exists means that the value does not matter.
	Exists bool
}

// A Constraint relates the devices of one claim.
type Constraint struct {
	// Attribute is fully qualified. All devices must have it, with equal values or, if Distinct, with different ones.
	Attribute string
	Distinct  bool
	// Requests limits the constraint to requests ("gpu") and choices ("gpu/large"). None means all.
	Requests []string
}

// The effects with which a taint keeps claims off a device. A taint with another effect keeps no claim off.
const (
	noSchedule = "NoSchedule"
	noExecute  = "NoExecute"
)

// Tolerates reports whether none of the taints keeps a claim with these tolerations off a device.
func Tolerates(tolerations []Toleration, taints []Taint) bool {
	for _, t := range taints {
		if (t.Effect == noSchedule || t.Effect == noExecute) && !toleratesOne(tolerations, t) {
			return false
		}
	}
	return true
}

func toleratesOne(tolerations []Toleration, t Taint) bool {
	for _, o := range tolerations {
		if (o.Effect == "" || o.Effect == t.Effect) && (o.Key == "" || o.Key == t.Key) && (o.Exists || o.Value == t.Value) {
			return true
		}
	}
	return false
}

// concerns reports whether the constraint is about a request, or about one choice of it.
func (c *Constraint) concerns(request, choice string) bool {
	if len(c.Requests) == 0 {
		return true
	}
	for _, name := range c.Requests {
		if name == request || choice != "" && name == request+"/"+choice {
			return true
		}
	}
	return false
}

// admits reports whether a device with the shape may join devices with these values, and returns the values with its own.
func (c *Constraint) admits(values []Value, shape *Shape) ([]Value, bool) {
	v, ok := shape.attribute(c.Attribute)
	if !ok {
		return nil, false
	}
	for _, other := range values {
		if c.Distinct && !surelyDiffer(v, other) || !c.Distinct && (v != other || v.Kind == Unknown) {
			return nil, false
		}
	}
	return append(values, v), true
}

// surelyDiffer returns false for values that might be equal.
func surelyDiffer(a, b Value) bool {
	if a.Kind == Unknown || a.Kind == Alike || b.Kind == Alike {
		return false
	}
	return a != b
}
