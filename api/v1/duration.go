package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Never is the text of a NillableDuration without a duration.
const Never = "Never"

// A NillableDuration is a length of time or, when Duration is nil, Never.
// It is written back exactly as it was read, so that a client which applies
// "1h" does not find "1h0m0s" and see a difference.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
type NillableDuration struct {
	*time.Duration

	// Raw is the JSON text this value was read from, if it was read.
	Raw []byte `hash:"ignore"`
}

// DurationOf returns the NillableDuration of length d.
func DurationOf(d time.Duration) NillableDuration { return NillableDuration{Duration: &d} }

// UnmarshalJSON reads a Go duration or the word Never.
func (d *NillableDuration) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration %s: want text such as \"1h\" or \"Never\"", b)
	}
	if text == Never {
		*d = NillableDuration{} // without Raw, so that it hashes like an absent duration
		return nil
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, such as 1h, or Never", text)
	}
	*d = NillableDuration{Duration: &length, Raw: bytes.Clone(b)}
	return nil
}

// MarshalJSON returns the text that was read, or the duration in Go's form.
func (d NillableDuration) MarshalJSON() ([]byte, error) {
	if d.Raw != nil {
		return d.Raw, nil
	}
	return json.Marshal(d.String())
}

// String returns the duration in Go's form, or Never.
func (d NillableDuration) String() string {
	if d.Duration == nil {
		return Never
	}
	return d.Duration.String()
}
