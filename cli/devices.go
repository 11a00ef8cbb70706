package cli

import (
	"tenon.sh/deviceselector"
	"tenon.sh/engine/device"
)

// selectors returns a function that evaluates the selectors of claims for devices. It returns nil if such claims are ignored.
func (o *ControllerOptions) selectors() func([]string, *device.Shape) []device.Answer {
	if o.IgnoreDRARequests {
		return nil
	}
	return deviceselector.New().Ask
}
