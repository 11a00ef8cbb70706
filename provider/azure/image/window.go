package image

import (
	"context"
	"fmt"
	"time"
)

// WindowConfigMap is the ConfigMap in which AKS writes when nodes may next get newer images.
const WindowConfigMap = "upcoming-maintenance-window"

const (
	windowStart = "aksManagedNodeOSUpgradeSchedule-start"
	windowEnd   = "aksManagedNodeOSUpgradeSchedule-end"
)

// open reports whether newer images may be used now. Without a maintenance window, they may be used at any time.
func (f *Finder) open(ctx context.Context) (bool, error) {
	if f.config.Window == nil {
		return true, nil
	}
	data, err := f.config.Window(ctx)
	if err != nil {
		return false, fmt.Errorf("read the maintenance window: %w", err)
	}
	start, end := data[windowStart], data[windowEnd]
	switch {
	case start == "" && end == "":
		return true, nil
	case start == "":
		return false, windowError("it has %s and no %s", windowEnd, windowStart)
	case end == "":
		return false, windowError("it has %s and no %s", windowStart, windowEnd)
	}
	from, err := time.Parse(time.RFC3339, start)
	if err != nil {
		return false, windowError("%s is %q and must be a time such as 2026-03-01T12:00:00Z", windowStart, start)
	}
	until, err := time.Parse(time.RFC3339, end)
	if err != nil {
		return false, windowError("%s is %q and must be a time such as 2026-03-01T12:00:00Z", windowEnd, end)
	}
	now := f.config.Clock.Now()
	return from.Before(now) && now.Before(until), nil
}

func windowError(format string, args ...any) error {
	return fmt.Errorf("read the maintenance window in ConfigMap %s: %s", WindowConfigMap, fmt.Sprintf(format, args...))
}
