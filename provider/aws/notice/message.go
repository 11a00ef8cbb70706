// Package notice reads AWS's announcements about machines: messages on a queue of SQS, and EC2's status of each machine. Other packages act
// on them.
package notice

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tenon.sh/engine"
)

// Event is the content of a message of EventBridge.
type Event struct {
	// Kind is one of the kinds of notices of package engine, "" for an event without a meaning here.
	Kind string
	// Type is the kind's name in metrics.
	Type      string
	Instances []string // i-…
	At        time.Time
}

// The names of other events in metrics.
const (
	typeNothing   = "no_op"
	typeMalformed = "malformed"
)

// envelope is the JSON of EventBridge.
type envelope struct {
	Version    string
	Source     string
	DetailType string `json:"detail-type"`
	Time       time.Time
	Detail     json.RawMessage
}

type instanceDetail struct {
	InstanceID string `json:"instance-id"`
	State      string
}

type healthDetail struct {
	Service           string
	EventTypeCategory string
	AffectedEntities  []struct{ EntityValue string }
}

// Parse parses a message. An event of an unknown type has no kind; an error means that the message cannot be parsed.
func Parse(body string) (Event, error) {
	if strings.TrimSpace(body) == "" {
		return Event{Type: typeNothing}, nil
	}
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return Event{Type: typeMalformed}, fmt.Errorf("read a message of the interruption queue: %w", err)
	}
	event, err := e.read()
	if err != nil {
		return Event{Type: typeMalformed}, fmt.Errorf("read a message of the interruption queue, %s: %w", e.DetailType, err)
	}
	event.At = e.Time
	return event, nil
}

func (e *envelope) read() (Event, error) {
	if e.Version != "0" {
		return Event{Type: typeNothing}, nil
	}
	switch e.Source + "/" + e.DetailType {
	case "aws.ec2/EC2 Spot Instance Interruption Warning":
		return e.instance(engine.NoticeSpotInterruption, "spot_interrupted")
	case "aws.ec2/EC2 Instance Rebalance Recommendation":
		return e.instance(engine.NoticeRebalance, "rebalance_recommendation")
	case "aws.ec2/EC2 Capacity Reservation Instance Interruption Warning":
		return e.instance(engine.NoticeReservationInterruption, "capacity_reservation_interrupted")
	case "aws.ec2/EC2 Instance State-change Notification":
		return e.state()
	case "aws.health/AWS Health Event":
		return e.health()
	}
	return Event{Type: typeNothing}, nil
}

func (e *envelope) instance(kind, metric string) (Event, error) {
	var d instanceDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return Event{}, err
	}
	if d.InstanceID == "" {
		return Event{}, fmt.Errorf("it names no instance")
	}
	return Event{Kind: kind, Type: metric, Instances: []string{d.InstanceID}}, nil
}

func (e *envelope) state() (Event, error) {
	var d instanceDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return Event{}, err
	}
	switch strings.ToLower(d.State) {
	case "stopping", "stopped":
		return e.instance(engine.NoticeStopping, "instance_stopped")
	case "shutting-down", "terminated":
		return e.instance(engine.NoticeTerminating, "instance_terminated")
	}
	return Event{Type: typeNothing}, nil
}

func (e *envelope) health() (Event, error) {
	var d healthDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return Event{}, err
	}
	if d.Service != "EC2" || d.EventTypeCategory != "scheduledChange" {
		return Event{Type: typeNothing}, nil
	}
	event := Event{Kind: engine.NoticeScheduledChange, Type: "scheduled_change"}
	for _, entity := range d.AffectedEntities {
		if entity.EntityValue != "" {
			event.Instances = append(event.Instances, entity.EntityValue)
		}
	}
	return event, nil
}
