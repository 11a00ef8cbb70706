package provider

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tenon.sh/engine"
)

// ErrGone means that there is no such machine, or that it has stopped. It is the only proof that a machine is gone.
var ErrGone = errors.New("machine is gone")

// SoldOutError names the offerings that had no capacity, so that the next plan avoids them.
type SoldOutError struct {
	Offerings []engine.OfferingID
	// Cause is the cloud's own word for it, "InsufficientInstanceCapacity".
	Cause string
}

func (e *SoldOutError) Error() string {
	names := make([]string, 0, len(e.Offerings))
	for _, o := range e.Offerings {
		names = append(names, o.String())
	}
	return fmt.Sprintf("no capacity (%s) in %s", e.Cause, strings.Join(names, ", "))
}

// ClassNotReadyError means that the claim's node class cannot be used.
type ClassNotReadyError struct {
	Class   string
	Problem string
}

func (e *ClassNotReadyError) Error() string {
	return fmt.Sprintf("node class %s is not ready: %s", e.Class, e.Problem)
}

// ThrottledError means that the cloud asks to be called less often.
type ThrottledError struct {
	Call string
	// RetryAfter is how long to wait; 0 leaves it to the caller.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string { return "throttled by the cloud: " + e.Call }

// PendingError means that a machine is on its way to which the cloud has given no ID yet. Launch is to be called again, and then
// returns it or says the same; such a claim may take as long to be launched as others to register.
type PendingError struct {
	// What is waited for, "Machine default/workers-x7k2p is Provisioning".
	What string
	// RetryAfter is how long to wait.
	RetryAfter time.Duration
}

func (e *PendingError) Error() string { return e.What }

// LaunchError is a launch that failed for a reason that a condition can name.
type LaunchError struct {
	// Reason is a CamelCase word for the Launched condition.
	Reason string
	Err    error
}

func (e *LaunchError) Error() string { return e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }
