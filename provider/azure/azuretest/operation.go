package azuretest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// operation is an operation that continues after its call was accepted.
type operation struct {
	id          string
	about       string // the name of the resource
	began, ends time.Time
	end         func() // carries out the operation's effect at its end
	fault       *Fault // the error with which it ends, nil for success
}

func (s *Subscription) newID() string {
	s.number++
	return fmt.Sprintf("00000000-0000-0000-0000-%012x", s.number)
}

// begin begins an operation. The lock is held.
func (s *Subscription) begin(takes time.Duration, about string, end func(), fault *Fault) *operation {
	now := s.clock.Now()
	op := &operation{id: s.newID(), about: about, began: now, ends: now.Add(takes), end: end, fault: fault}
	s.running = append(s.running, op)
	return op
}

// settle ends the operations that are due, in the order in which they end. The lock is held.
func (s *Subscription) settle() {
	for {
		var next *operation
		for _, op := range s.running {
			if !op.ends.After(s.clock.Now()) && (next == nil || op.ends.Before(next.ends)) {
				next = op
			}
		}
		if next == nil {
			return
		}
		s.finish(next)
		next.end()
	}
}

// finish moves an operation to the ended ones. The lock is held.
func (s *Subscription) finish(op *operation) {
	for i, o := range s.running {
		if o == op {
			s.running = append(s.running[:i:i], s.running[i+1:]...)
			break
		}
	}
	s.ended[op.id] = op
}

// preempt ends the running operations on a resource. The lock is held.
func (s *Subscription) preempt(about string) {
	for _, op := range append([]*operation(nil), s.running...) {
		if op.about == about {
			op.fault = &Fault{Code: "OperationPreempted", Message: "Operation execution has been preempted by a more recent operation."}
			op.ends = s.clock.Now()
			s.finish(op)
		}
	}
}

// accept returns the answer to a call that began an operation.
func (s *Subscription) accept(status int, body any, op *operation) answer {
	base := s.URL + "/subscriptions/" + s.ID + "/providers/Microsoft.Compute/locations/" + Location
	return answer{status: status, body: body, header: map[string]string{
		"Azure-AsyncOperation": base + "/operations/" + op.id + "?api-version=2024-01-01",
		"Location":             base + "/operationResults/" + op.id + "?api-version=2024-01-01",
		"Retry-After":          s.comeAgain(op),
	}}
}

// comeAgain returns the time after which a client should ask about an operation again: its remaining time, but at most ten seconds.
func (s *Subscription) comeAgain(op *operation) string {
	return seconds(min(max(0, op.ends.Sub(s.clock.Now())), 10*time.Second))
}

func (s *Subscription) operation(id string) (op *operation, running bool) {
	for _, op := range s.running {
		if op.id == id {
			return op, true
		}
	}
	return s.ended[id], false
}

func (s *Subscription) aboutOperation(id string) string {
	if op, _ := s.operation(strings.ToLower(id)); op != nil {
		return op.about
	}
	return ""
}

func (s *Subscription) getOperation(c *Call) answer {
	op, running := s.operation(c.name())
	if op == nil {
		return refuse(http.StatusNotFound, "NotFound", "The entity was not found.")
	}
	out := object{"name": op.id, "startTime": op.began.UTC().Format(time.RFC3339), "status": "InProgress"}
	if running {
		return answer{status: http.StatusOK, body: out, header: map[string]string{"Retry-After": s.comeAgain(op)}}
	}
	out["status"], out["endTime"] = "Succeeded", op.ends.UTC().Format(time.RFC3339)
	if op.fault != nil {
		out["status"], out["error"] = "Failed", op.fault.object()
	}
	return ok(out)
}

// getResult answers a poll of an operation by the URL in the header Location, the older of ARM's two ways.
func (s *Subscription) getResult(c *Call) answer {
	op, running := s.operation(c.name())
	switch {
	case op == nil:
		return refuse(http.StatusNotFound, "NotFound", "The entity was not found.")
	case running:
		return answer{status: http.StatusAccepted, header: map[string]string{"Retry-After": s.comeAgain(op), "Location": s.URL + c.Path + "?" + c.Query.Encode()}}
	case op.fault != nil:
		return answer{fault: op.fault}
	}
	return answer{status: http.StatusNoContent}
}
