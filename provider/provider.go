// Package provider is the boundary to a cloud: the interface that every cloud implements, the small optional ones, and
// the errors that the controllers tell apart. A provider starts and stops machines and says what there is to buy; what
// to buy, and when a machine should go, is decided in package engine.
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
	// Resolve finds what class refers to (images, subnets) and says why the class cannot be used, "" if it can.
	// An error means that this could not be found out.
	Resolve(ctx context.Context, class Class) (problem string, err error)
	// Catalog lists every instance type that class can use, sold out or not, ordered by name. The caller does not
	// change what it gets: a provider may hand out the same slice again while nothing has changed.
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

// Class is a node class object as it stands in the API server.
type Class struct {
	Ref v1.NodeClassReference
	// Object is the node class; its Go type is the provider's own.
	Object Object
	// Correct lays NodeOverlays over the class's catalog, for a launch: the cheapest offering by the corrected prices is started, and
	// added resources count. It changes nothing that it is given; nil corrects nothing.
	Correct func([]engine.InstanceType) []engine.InstanceType
}

// Corrected is a catalog of the class as the pool of a launch buys from it.
func (c Class) Corrected(types []engine.InstanceType) []engine.InstanceType {
	if c.Correct == nil {
		return types
	}
	return c.Correct(types)
}

// What only some clouds can do is a small interface of its own.

// A Notifier hears of machines that the cloud is about to take away.
type Notifier interface {
	// Notices returns the notices that have arrived since the last call; a notice that was not Acknowledged comes again.
	Notices(ctx context.Context) ([]Notice, error)
	// Acknowledge says that a notice has been acted on.
	Acknowledge(ctx context.Context, notice Notice) error
}

// A Notice announces that the cloud will stop a machine.
type Notice struct {
	ID      string
	Machine engine.MachineID
	// Kind is the cloud's word for what will happen, "SpotInterruption".
	Kind string
}

// A Source is one of several places where a provider hears of its machines.
type Source struct {
	// Name is a word for logs, "queue".
	Name string
	Notifier
	// Every is how often it is to be asked.
	Every time.Duration
}

// A Hearer has sources of notices that do not wait for each other: it takes the place of Notifier.
type Hearer interface {
	// Sources lists them. It is asked once.
	Sources() []Source
}

// noticesEvery is how often the only source of a provider is asked.
const noticesEvery = 500 * time.Millisecond

// Sources are where a provider hears of its machines, none if it does not.
func Sources(p Provider) []Source {
	if h, ok := p.(Hearer); ok {
		return h.Sources()
	}
	if n, ok := p.(Notifier); ok {
		return []Source{{Notifier: n, Every: noticesEvery}}
	}
	return nil
}

// A Repairer knows by which conditions of their Nodes broken machines can be told.
type Repairer interface {
	// Repairs lists them for the machines of every class. The caller does not change what it gets.
	Repairs() []engine.RepairPolicy
}

// A HealthChecker is a Repairer in whose cloud others replace broken machines too.
type HealthChecker interface {
	// Tended names the NodeClaims of the class, in order, whose machines these have found broken, or are kept from replacing. It is
	// asked as often as the catalog.
	Tended(ctx context.Context, class Class) ([]string, error)
}

// An Inspector knows what machines of a class have to look like. Whether one that looks otherwise has drifted is decided in
// package engine.
type Inspector interface {
	// Traits are what the class wants its machines to be, in the order in which drift is looked for. It is asked as often as
	// the catalog.
	Traits(ctx context.Context, class Class) ([]engine.Trait, error)
}

// A Rationer's cloud bounds what its machines may be together.
type Rationer interface {
	// Quotas are those that offerings of the class's catalog draw from, as far as they are known. It is asked as often as the catalog.
	Quotas(ctx context.Context, class Class) ([]engine.Quota, error)
}

// A Housekeeper has something of its own to clean up (tags, templates, machines that no claim owns any more).
type Housekeeper interface {
	// Clean looks for what is left over and removes it. It is called every few minutes.
	Clean(ctx context.Context) error
}

// An Adopter's cloud has controllers of its own that put machines in the place of others.
type Adopter interface {
	// Adoptable lists the machines that class could have started, that belong to no claim and that no claim waits for. Their
	// annotations are those by which the provider knows the machine of a claim that carries them.
	Adoptable(ctx context.Context, class Class) ([]engine.Machine, error)
}

// A Releaser lets go of machines without stopping them, when an installation is removed and its machines stay.
type Releaser interface {
	// Release makes a machine one that belongs to no cluster: no autoscaler that is installed later takes it for its own, or for
	// one that was left behind. It may be called again; it returns ErrGone if there is no such machine.
	Release(ctx context.Context, id engine.MachineID) error
	// ReleaseClass removes what was made for a class, but for what its machines need to go on running. It names that.
	ReleaseClass(ctx context.Context, class Class) (stays []string, err error)
}

// An Event tells people of something that the provider has found out about an object.
type Event struct {
	Object  Object
	Warning bool
	Reason  string
	Message string
}

// Tell hears of events; nil is nobody. It does not wait.
type Tell func(Event)

// A Foreteller leaves word on a claim before it asks its cloud for a machine. Whoever comes after a crash finds the machine
// by it, and does not start a second one.
type Foreteller interface {
	// LaunchNoted is Launch. It calls note before it asks the cloud for a machine, and asks for nothing if note fails; it may
	// do so more than once, from the goroutine that it was called in.
	LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class Class, note Note) (engine.Machine, error)
}

// Note writes annotations on the claim that is being launched.
type Note func(ctx context.Context, annotations map[string]string) error

// LaunchNoted launches a claim with any provider; one that is no Foreteller leaves no word.
func LaunchNoted(ctx context.Context, p Provider, claim *v1.NodeClaim, class Class, note Note) (engine.Machine, error) {
	if f, ok := p.(Foreteller); ok {
		return f.LaunchNoted(ctx, claim, class, note)
	}
	return p.Launch(ctx, claim, class)
}
