package engine

// Options tune the engine's decisions. The zero value is the default.
type Options struct {
	// Preferences says what soft constraints of pods are worth.
	Preferences PreferencePolicy `json:"preferences,omitempty"`
	// MinValues says what happens when a pool's minValues cannot be met.
	MinValues MinValuesPolicy `json:"minValues,omitempty"`
	// Effort is the number of units of work to spend on looking for a cheaper plan; 0 means 100,000, below 0 none.
	Effort int `json:"effort,omitempty"`
	// PriceBand bounds the offerings that one launch lists: each costs at most this times the cheapest of them.
	// 0 means 1.15.
	PriceBand float64 `json:"priceBand,omitempty"`
	// MaxTypes is the largest number of instance types that one launch lists; 0 means 600.
	MaxTypes int `json:"maxTypes,omitempty"`
}

// PreferencePolicy says what soft constraints of pods are worth.
type PreferencePolicy string

// MinValuesPolicy says what happens when a pool's minValues cannot be met.
type MinValuesPolicy string

const (
	Respect PreferencePolicy = ""       // honoured where possible
	Ignore  PreferencePolicy = "Ignore" // never looked at

	Strict     MinValuesPolicy = ""           // pods stay pending
	BestEffort MinValuesPolicy = "BestEffort" // lowered to what can be reached
)

func (o Options) effort() int {
	switch {
	case o.Effort < 0:
		return 0
	case o.Effort == 0:
		return 100_000
	}
	return o.Effort
}

func (o Options) priceBand() float64 {
	if o.PriceBand == 0 {
		return 1.15
	}
	return max(o.PriceBand, 1)
}

func (o Options) maxTypes() int {
	if o.MaxTypes <= 0 {
		return 600
	}
	return o.MaxTypes
}
