package provider

import "context"

// An Examiner looks in a cloud for problems that keep the autoscaler from working there. It changes nothing.
type Examiner interface {
	// Examine returns its findings, good and bad. Classes are the node classes in use.
	Examine(ctx context.Context, classes []Class) []Finding
}

// Level is the severity of a finding.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Problem Level = "problem"
)

// Finding is the result of one check of one object.
type Finding struct {
	Level Level `json:"level"`
	// Check is the name of the check: "crd", "permissions".
	Check string `json:"check"`
	// Object is the checked object: "NodePool general"; it may be empty.
	Object string `json:"object,omitempty"`
	// Says describes the finding in one line. Do is the user's remedy.
	Says string `json:"says"`
	Do   string `json:"do,omitempty"`
}
