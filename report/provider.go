package report

import (
	"context"
	"errors"

	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// Measured is a provider whose calls are timed and whose errors are counted.
type Measured struct {
	provider.Provider
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Catalog lists the instance types that the class can use.
func (m Measured) Catalog(ctx context.Context, class provider.Class) (types []engine.InstanceType, err error) {
	defer m.measure("nodeclass", "GetInstanceTypes", "")(&err)
	return m.Provider.Catalog(ctx, class)
}

// Launch starts a machine.
func (m Measured) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (machine engine.Machine, err error) {
	defer m.measure("nodeclaim.lifecycle", "Create", poolOf(claim))(&err)
	return m.Provider.Launch(ctx, claim, class)
}

// LaunchNoted starts a machine; some providers write a note before the start.
func (m Measured) LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (machine engine.Machine, err error) {
	defer m.measure("nodeclaim.lifecycle", "Create", poolOf(claim))(&err)
	return provider.LaunchNoted(ctx, m.Provider, claim, class, note)
}

// Terminate requests that a machine stop.
func (m Measured) Terminate(ctx context.Context, id engine.MachineID) (err error) {
	defer m.measure("nodeclaim.lifecycle", "Delete", "")(&err)
	return m.Provider.Terminate(ctx, id)
}

// Machine returns one machine.
func (m Measured) Machine(ctx context.Context, id engine.MachineID) (machine engine.Machine, err error) {
	defer m.measure("nodeclaim.lifecycle", "Get", "")(&err)
	return m.Provider.Machine(ctx, id)
}

// Machines lists every machine of this cluster.
func (m Measured) Machines(ctx context.Context) (machines []engine.Machine, err error) {
	defer m.measure("nodeclaim.garbagecollection", "List", "")(&err)
	return m.Provider.Machines(ctx)
}

func (m Measured) measure(controller, method, pool string) func(*error) {
	began := m.Clock.Now()
	return func(err *error) {
		m.Metrics.cloudDuration.WithLabelValues(controller, method, m.Name()).Observe(m.Clock.Since(began).Seconds())
		if pending := (*provider.PendingError)(nil); *err != nil && !errors.As(*err, &pending) { // a machine that is being made is no failure
			m.Metrics.cloudErrors.WithLabelValues(controller, method, m.Name(), errorKind(*err), pool).Inc()
		}
	}
}

// errorKind returns the name of an error in dashboards.
func errorKind(err error) string {
	var soldOut *provider.SoldOutError
	var notReady *provider.ClassNotReadyError
	switch {
	case errors.Is(err, provider.ErrGone):
		return "NodeClaimNotFoundError"
	case errors.As(err, &soldOut):
		return "InsufficientCapacityError"
	case errors.As(err, &notReady):
		return "NodeClassNotReadyError"
	}
	return "unknown"
}
