package offer

import (
	"slices"
	"strconv"

	v1 "tenon.sh/api/v1"
)

// Wanted holds requirements by label key.
type Wanted map[string][]v1.Requirement

// NewWanted sorts requirements by their label keys.
func NewWanted(requirements []v1.Requirement) Wanted {
	w := Wanted{}
	for _, r := range requirements {
		key := v1.NormalizeLabel(r.Key)
		r.Values = v1.NormalizeValues(r.Key, r.Values)
		w[key] = append(w[key], r)
	}
	return w
}

// Allows reports whether a label may have a value.
func (w Wanted) Allows(key, value string) bool {
	for _, r := range w[key] {
		if !allows(r, value) {
			return false
		}
	}
	return true
}

// allowsNone reports whether a label may be absent.
func (w Wanted) allowsNone(key string) bool {
	for _, r := range w[key] {
		if r.Operator != v1.NotIn && r.Operator != v1.DoesNotExist {
			return false
		}
	}
	return true
}

func allows(r v1.Requirement, value string) bool {
	switch r.Operator {
	case v1.In:
		return slices.Contains(r.Values, value)
	case v1.NotIn:
		return !slices.Contains(r.Values, value)
	case v1.Exists:
		return true
	case v1.Gt, v1.Lt, v1.Gte, v1.Lte:
		return allowsNumber(r, value)
	}
	return false
}

func allowsNumber(r v1.Requirement, value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	bound, err := strconv.Atoi(r.Values[0])
	number, err2 := strconv.Atoi(value)
	if err != nil || err2 != nil {
		return false
	}
	switch r.Operator {
	case v1.Gt:
		return number > bound
	case v1.Lt:
		return number < bound
	case v1.Gte:
		return number >= bound
	}
	return number <= bound
}
