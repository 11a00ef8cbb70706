package provider

import "context"

// An Examiner looks at a cloud for what keeps the autoscaler from working there. It changes nothing.
type Examiner interface {
	// Examine says what is as it should be and what is not. Classes are those in use.
	Examine(ctx context.Context, classes []Class) []Finding
}

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is what one look at one thing brought.
type Finding struct {
	Level Level `json:"level"`
	// Check is the name of the look: "crd", "permissions".
	Check string `json:"check"`
	// Object is what was looked at: "NodePool general"; it may be empty.
	Object string `json:"object,omitempty"`
	// Says is what was found, in one line, and Do what to do about it.
	Says string `json:"says"`
	Do   string `json:"do,omitempty"`
}
