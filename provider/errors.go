package provider

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tenon.sh/engine"
)

// ErrGone means that the machine does not exist or has stopped. No other error proves that a machine is gone.
var ErrGone = errors.New("machine is gone")

// SoldOutError names the offerings that had no capacity, so that the next plan avoids them.
type SoldOutError struct {
	Offerings []engine.OfferingID
	// Cause is the cloud's error code, "InsufficientInstanceCapacity".
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

// ThrottledError means that the cloud refused a call because of its rate limit.
type ThrottledError struct {
	Call string
	// RetryAfter is the time to wait; if it is 0, the caller chooses the time.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string { return "throttled by the cloud: " + e.Call }

// PendingError means that the cloud is making a machine but has given it no ID yet. The caller calls Launch again: Launch returns the
// machine, or this error again. Such a claim has as much time to be launched as other claims have to register.
type PendingError struct {
	// What names the awaited object and its state, "Machine default/workers-x7k2p is Provisioning".
	What string
	// RetryAfter is the time to wait.
	RetryAfter time.Duration
}

func (e *PendingError) Error() string { return e.What }

// LaunchError is a failed launch with a reason for a condition.
type LaunchError struct {
	// Reason is a CamelCase word for the Launched condition.
	Reason string
	Err    error
}

func (e *LaunchError) Error() string { return e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }
