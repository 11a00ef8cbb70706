// Package provider is the boundary to a cloud: the interface that every cloud implements, small optional interfaces, and the errors that the
// controllers tell apart. A provider starts and stops machines and lists the machines that can be bought. Package engine decides which machines to
// buy and when a machine should go.
package provider

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// A Provider starts and stops machines in one cloud. All methods may be called from several goroutines.
type Provider interface {
	// Name is the value of the provider label of metrics, "kwok".
	Name() string
	// Kinds lists the node class kinds that this provider serves; the first is the default one.
	Kinds() []schema.GroupVersionKind
	// Resolve finds the objects to which class refers (images, subnets). Problem says why the class cannot be used; it is "" if the class can be
	// used. An error means that Resolve could not find that out.
	Resolve(ctx context.Context, class Class) (problem string, err error)
	// Catalog lists every instance type that class can use, sold out or not, ordered by name. The caller must not change the slice, because a
	// provider may return it again while nothing has changed.
	Catalog(ctx context.Context, class Class) ([]engine.InstanceType, error)
	// Launch starts the machine that claim describes, at the cheapest offering that its requirements name and that has
	// capacity. Calling it again for the same claim (by UID) returns the same machine.
	Launch(ctx context.Context, claim *v1.NodeClaim, class Class) (engine.Machine, error)
	// Terminate tells a machine to stop. It may be called again; it returns ErrGone once there is no such machine.
	Terminate(ctx context.Context, id engine.MachineID) error
	// Machine returns one machine, or ErrGone.
	Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error)
	// Machines lists every machine that belongs to this cluster, ordered by ID.
	Machines(ctx context.Context) ([]engine.Machine, error)
}

// Class is a node class object as the API server has it.
type Class struct {
	Ref v1.NodeClassReference
	// Object is the node class; its Go type is the provider's own.
	Object Object
	// Correct returns the class's catalog with the changes of NodeOverlays, for a launch: the launch starts the cheapest offering by the changed
	// prices, and added resources count. It does not change its argument. If Correct is nil, there are no changes.
	Correct func([]engine.InstanceType) []engine.InstanceType
}

// Corrected returns the catalog from which the pool of a launch buys.
func (c Class) Corrected(types []engine.InstanceType) []engine.InstanceType {
	if c.Correct == nil {
		return types
	}
	return c.Correct(types)
}

// Abilities that only some clouds have are small interfaces of their own.

// A Notifier receives the cloud's notices about machines that it will take away.
type Notifier interface {
	// Notices returns the notices that have arrived since the last call. A notice that was not acknowledged comes again.
	Notices(ctx context.Context) ([]Notice, error)
	// Acknowledge says that a notice has been acted on.
	Acknowledge(ctx context.Context, notice Notice) error
}

// A Notice announces that the cloud will stop a machine.
type Notice struct {
	ID      string
	Machine engine.MachineID
	// Kind is the cloud's word for the announced event, "SpotInterruption".
	Kind string
}

// A Source is one of several places from which a provider receives notices.
type Source struct {
	// Name is a word for logs, "queue".
	Name string
	Notifier
	// Every is the time between two calls of Notices.
	Every time.Duration
}

// A Hearer has several sources of notices that do not wait for each other. A provider implements it instead of Notifier.
type Hearer interface {
	// Sources lists the sources. It is called once.
	Sources() []Source
}

// noticesEvery is the time between two calls of Notices if a provider has a single source.
const noticesEvery = 500 * time.Millisecond

// Sources returns the provider's sources of notices. There are none if the provider receives no notices.
func Sources(p Provider) []Source {
	if h, ok := p.(Hearer); ok {
		return h.Sources()
	}
	if n, ok := p.(Notifier); ok {
		return []Source{{Notifier: n, Every: noticesEvery}}
	}
	return nil
}

// A Repairer knows the conditions of Nodes that mean that a machine is broken.
type Repairer interface {
	// Repairs lists these conditions for the machines of every class. The caller must not change the slice.
	Repairs() []engine.RepairPolicy
}

// A HealthChecker is a Repairer whose cloud has health checks that replace broken machines as well.
type HealthChecker interface {
	// Tended names, in order, the NodeClaims of the class whose machines the health checks have found broken or may not replace. It is called as
	// often as Catalog.
	Tended(ctx context.Context, class Class) ([]string, error)
}

// An Inspector knows the properties that machines of a class should have. Package engine decides whether a machine with other properties has
// drifted.
type Inspector interface {
	// Traits lists these properties, in the order in which drift is looked for. It is called as often as Catalog.
	Traits(ctx context.Context, class Class) ([]engine.Trait, error)
}

// A Rationer's cloud has quotas that limit all machines together.
type Rationer interface {
	// Quotas lists the known quotas of the offerings in the class's catalog. It is called as often as Catalog.
	Quotas(ctx context.Context, class Class) ([]engine.Quota, error)
}

// A Housekeeper has something of its own to clean up (tags, templates, machines that no claim owns any more).
type Housekeeper interface {
	// Clean finds remains and removes them. It is called every few minutes.
	Clean(ctx context.Context) error
}

// An Adopter's cloud has controllers of its own that replace machines by others.
type Adopter interface {
	// Adoptable lists the machines that could have been started for class, that belong to no claim and for which no claim waits. If a claim has the
	// annotations of such a machine, the provider takes the machine for the claim's.
	Adoptable(ctx context.Context, class Class) ([]engine.Machine, error)
}

// A Releaser gives up machines without stopping them, if an installation is removed and its machines stay.
type Releaser interface {
	// Release removes the marks by which a machine belongs to the cluster, so that no autoscaler that is installed later takes it for its own or for
	// a remainder. It may be called again; it returns ErrGone if there is no such machine.
	Release(ctx context.Context, id engine.MachineID) error
	// ReleaseClass removes the cloud's resources that were made for a class, except the ones that running machines need. `stays` names these.
	ReleaseClass(ctx context.Context, class Class) (stays []string, err error)
}

// An Event reports something that the provider has found out about an object.
type Event struct {
	Object  Object
	Warning bool
	Reason  string
	Message string
}

// Tell receives events. It may be nil, and it does not block.
type Tell func(Event)

// A Foreteller writes annotations on a claim before it asks its cloud for a machine. After a crash, the next process finds the machine by these
// annotations and does not start a second one.
type Foreteller interface {
	// LaunchNoted is like Launch, but calls note before it asks the cloud for a machine, and does not ask if note fails. It may call note more than
	// once, from the caller's goroutine.
	LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class Class, note Note) (engine.Machine, error)
}

// Note writes annotations on the claim that is being launched.
type Note func(ctx context.Context, annotations map[string]string) error

// LaunchNoted launches a claim with any provider. If the provider is no Foreteller, note is not called.
func LaunchNoted(ctx context.Context, p Provider, claim *v1.NodeClaim, class Class, note Note) (engine.Machine, error) {
	if f, ok := p.(Foreteller); ok {
		return f.LaunchNoted(ctx, claim, class, note)
	}
	return p.Launch(ctx, claim, class)
}
