package device

// A Claim asks for devices that are allocated together.
type Claim struct {
	Name        string
	Requests    []Request
	Constraints []Constraint
}

// A Request is one part of a claim.
type Request struct {
	Name string
	// Choices has one element without a name, or the named ones of firstAvailable: the first that can be had counts.
	Choices []Choice
}

// A Choice is what a request asks for.
type Choice struct {
	Name string
	// Selectors are numbers of rows in Facts.Answers: those of the class, then those of the request.
	Selectors []int
	// Count is how many devices; All, every device that matches, and at least one.
	Count int
	All   bool
	// Admin asks for access to devices whether or not others have them.
	Admin       bool
	Tolerations []Toleration
	// Capacity is how much is asked of each device.
	Capacity map[string]int64
}

// A Toleration lets a claim have devices with a taint.
type Toleration struct {
	// Key and Effect stand for all keys and effects if they are empty.
	Key, Value, Effect string
	// Exists says that the value does not matter.
	Exists bool
}

// A Constraint relates the devices of one claim.
type Constraint struct {
	// Attribute is fully qualified. All devices must have it, with one value or, if Distinct, each with another.
	Attribute string
	Distinct  bool
	// Requests limits it to requests ("gpu") and choices ("gpu/large"). None means all.
	Requests []string
}

// The effects of taints that keep claims away. Others do nothing.
const (
	noSchedule = "NoSchedule"
	noExecute  = "NoExecute"
)

// Tolerates says that none of the taints keeps a claim with these tolerations from a device.
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

// concerns says whether the constraint holds for a request, or for one choice of it.
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

// admits says whether a device with the shape may join those whose values are given, and the list with its value.
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

// surelyDiffer is false of values that might turn out to be equal.
func surelyDiffer(a, b Value) bool {
	if a.Kind == Unknown || a.Kind == Alike || b.Kind == Alike {
		return false
	}
	return a != b
}
