package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/offer"
)

var (
	_ provider.Provider = &Provider{}
	_ provider.Notifier = &Provider{}
)

const (
	// soldOutFor is the time for which an offering that refused a machine is not asked again.
	soldOutFor = 3 * time.Minute
	// unseenFor is the time for which a machine that was started here may stay unseen; after that, it counts as gone.
	unseenFor = 2 * time.Minute
)

// Provider makes a provider.Provider of a Cloud. Its node classes are KWOKNodeClasses.
type Provider struct {
	cloud *Cloud

	mu sync.Mutex // guards all below
	// soldOut holds offerings that refused a machine, and the time until which they count as sold out.
	soldOut map[engine.OfferingID]time.Time
	// base is the cloud's catalog. marked is the same catalog with sold-out offerings marked.
	base, marked []engine.InstanceType
	// unseen holds machines that were started here and that lists of the cloud have not shown yet.
	unseen map[engine.MachineID]engine.Machine
}

// New makes a provider of a cloud.
func New(cloud *Cloud) *Provider {
	return &Provider{cloud: cloud, soldOut: map[engine.OfferingID]time.Time{}, unseen: map[engine.MachineID]engine.Machine{}}
}

// Name returns "simulated".
func (p *Provider) Name() string { return "simulated" }

// Kinds returns KWOKNodeClass.
func (p *Provider) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")}
}

// Resolve reports a problem if the class does not exist or if its Ready condition is False.
func (p *Provider) Resolve(ctx context.Context, class provider.Class) (problem string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return classProblem(class), nil
}

func classProblem(class provider.Class) string {
	object, _ := class.Object.(*kwokv1alpha1.KWOKNodeClass)
	if class.Object == nil || object == nil {
		return "there is no such KWOKNodeClass"
	}
	ready := v1.GetCondition(object, v1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	if ready.Message == "" {
		return "its condition Ready is False, reason " + ready.Reason
	}
	return ready.Message
}

// Delay returns the time that a class adds to the boot of its machines.
func Delay(class provider.Class) time.Duration {
	object, _ := class.Object.(*kwokv1alpha1.KWOKNodeClass)
	if object == nil || object.Spec.NodeRegistrationDelay == nil {
		return 0
	}
	return max(0, object.Spec.NodeRegistrationDelay.Duration)
}

// Catalog returns the cloud's catalog at its listed prices. An offering that refused a machine in the last three minutes is marked as sold
// out. The catalog is the same for every class.
func (p *Provider) Catalog(ctx context.Context, _ provider.Class) ([]engine.InstanceType, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	base, now := p.cloud.Catalog(), p.cloud.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, until := range p.soldOut {
		if !now.Before(until) {
			delete(p.soldOut, id)
			p.marked = nil
		}
	}
	if p.marked == nil || &p.base[0] != &base[0] {
		p.base, p.marked = base, p.mark(base)
	}
	return p.marked, nil
}

// mark returns the catalog with sold-out offerings marked. It copies only the types that it changes.
func (p *Provider) mark(base []engine.InstanceType) []engine.InstanceType {
	if len(p.soldOut) == 0 {
		return base
	}
	types := slices.Clone(base)
	for i, t := range types {
		for j, o := range t.Offerings {
			if _, marked := p.soldOut[idOf(&t, &o)]; !marked {
				continue
			}
			if &types[i].Offerings[0] == &t.Offerings[0] {
				types[i].Offerings = slices.Clone(t.Offerings)
			}
			types[i].Offerings[j].SoldOut = true
		}
	}
	return types
}

// Launch starts a machine at the cheapest offering that the claim's requirements allow and that is not sold out.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	target := Target{Claim: claim.Name, ClaimUID: string(claim.UID)}
	if err := ctx.Err(); err != nil {
		return engine.Machine{}, err
	}
	if m, found := p.cloud.Started(target); found {
		return m, nil
	}
	if problem := classProblem(class); problem != "" {
		return engine.Machine{}, &provider.ClassNotReadyError{Class: class.Ref.Name, Problem: problem}
	}
	types, err := p.Catalog(ctx, class)
	if err != nil {
		return engine.Machine{}, err
	}
	list, err := offer.For(class.Corrected(types), claim)
	if err != nil {
		return engine.Machine{}, &provider.LaunchError{Reason: "NoMatchingOffering", Err: fmt.Errorf("launch %s: %w", claim.Name, err)}
	}
	fleet, soldOut := Fleet{Targets: []Target{target}, Delay: Delay(class)}, &provider.SoldOutError{Cause: CodeNoCapacity}
	for _, c := range list {
		if c.SoldOut {
			soldOut.Offerings = append(soldOut.Offerings, c.OfferingID)
			continue
		}
		fleet.Overrides = append(fleet.Overrides, Override{c.OfferingID, c.Labels})
	}
	return p.create(fleet, claim.Name, soldOut)
}

// create asks the cloud for a machine, and remembers the offerings that refused.
func (p *Provider) create(fleet Fleet, claim string, soldOut *provider.SoldOutError) (engine.Machine, error) {
	result, err := p.cloud.CreateFleet(fleet)
	now := p.cloud.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, refused := range result.Errors {
		if i == 0 {
			soldOut.Cause = refused.Code
		}
		soldOut.Offerings = append(soldOut.Offerings, refused.OfferingID)
		p.soldOut[refused.OfferingID] = now.Add(soldOutFor)
		p.marked = nil
	}
	if throttled := (*provider.ThrottledError)(nil); errors.As(err, &throttled) {
		return engine.Machine{}, err
	}
	if err != nil {
		return engine.Machine{}, &provider.LaunchError{Reason: "LaunchFailed", Err: fmt.Errorf("launch %s: %w", claim, err)}
	}
	if len(result.Machines) == 0 {
		return engine.Machine{}, soldOut
	}
	m := result.Machines[0]
	p.unseen[m.ID] = m
	return m, nil
}

// Terminate tells a machine to stop.
func (p *Provider) Terminate(ctx context.Context, id engine.MachineID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.cloud.Terminate(id)
}

// Machine returns one machine. A machine that was started here exists even if the cloud does not show it yet.
func (p *Provider) Machine(ctx context.Context, id engine.MachineID) (engine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return engine.Machine{}, err
	}
	m, err := p.cloud.Describe(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, ErrUnseen) {
		if m, found := p.unseen[id]; found && p.cloud.Now().Sub(m.Created) < unseenFor {
			return m, nil
		}
		err = provider.ErrGone
	}
	if errors.Is(err, provider.ErrGone) {
		delete(p.unseen, id)
	}
	return m, err
}

// Machines lists every machine that the cloud shows, and the machines that were started here and that it does not show yet.
func (p *Provider) Machines(ctx context.Context) ([]engine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list, err := p.cloud.List()
	if err != nil {
		return nil, err
	}
	listed := map[engine.MachineID]bool{}
	for _, m := range list {
		listed[m.ID] = true
	}
	for _, id := range p.unlisted(listed) {
		m, err := p.Machine(ctx, id)
		if errors.Is(err, provider.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	sortMachines(list)
	return list, nil
}

// unlisted lists the machines that were started here and that lists have not shown yet.
func (p *Provider) unlisted(listed map[engine.MachineID]bool) []engine.MachineID {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := []engine.MachineID{}
	for id, m := range p.unseen {
		if listed[id] || p.cloud.Now().Sub(m.Created) >= unseenFor {
			delete(p.unseen, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Notices returns the interruptions that the cloud has announced.
func (p *Provider) Notices(ctx context.Context) ([]provider.Notice, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list := []provider.Notice{}
	for _, n := range p.cloud.Notices() {
		list = append(list, provider.Notice{ID: n.ID, Machine: n.Machine, Kind: n.Kind})
	}
	return list, nil
}

// Acknowledge ends a notice.
func (p *Provider) Acknowledge(ctx context.Context, notice provider.Notice) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.cloud.Acknowledge(notice.ID)
	return nil
}
