package cli

import (
	"tenon.sh/deviceselector"
	"tenon.sh/engine/device"
)

// selectors answers what claims select, nil if claims for devices are not acted on.
func (o *ControllerOptions) selectors() func([]string, *device.Shape) []device.Answer {
	if o.IgnoreDRARequests {
		return nil
	}
	return deviceselector.New().Ask
}
