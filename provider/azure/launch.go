package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/azure/soldout"
	"tenon.sh/provider/offer"
	"tenon.sh/provider/stamp"
)

const (
	// lookAgain is how long to wait for a machine before it is looked at again.
	lookAgain = 5 * time.Second
	// attempts is how many machines one launch asks for that Azure refuses at once. What it refused is marked: the next plan knows.
	attempts = 8
)

// Launch is LaunchNoted; the word is left on the claim as the API server has it.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	return p.LaunchNoted(ctx, claim, class, func(ctx context.Context, annotations map[string]string) error {
		changed := claim.DeepCopy()
		stamp.Annotate(changed, annotations)
		return p.client.Patch(ctx, changed, client.MergeFrom(claim))
	})
}

// LaunchNoted starts the machine that a claim describes, the cheapest that there is; what has no capacity is passed over. Azure
// takes its time to start one, and may find out late that there is none: the error says that it is pending then, and the next call
// goes on, with another machine if need be.
func (p *Provider) LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return engine.Machine{}, err
	}
	known, unlock, err := p.launches.lock(ctx, claim.UID)
	if err != nil {
		return engine.Machine{}, err
	}
	defer unlock()
	if known.machine != nil {
		return *known.machine, ctx.Err()
	}
	m, err := p.machineOf(ctx, claim)
	if err == nil {
		return p.follow(ctx, claim, class, known, m)
	}
	if !errors.Is(err, provider.ErrGone) {
		return engine.Machine{}, asThrottled(fmt.Errorf("launch %s: %w", claim.Name, err))
	}
	if err := known.failed; err != nil {
		known.failed = nil
		return engine.Machine{}, err
	}
	if problem := p.unready(c); problem != "" {
		return engine.Machine{}, &provider.ClassNotReadyError{Class: c.Name, Problem: problem}
	}
	return p.buy(ctx, claim, c, class, known, note)
}

// unready says why no machine can be started from a class, "" if one can.
func (p *Provider) unready(c *azurev1beta1.AKSNodeClass) string {
	if c.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	for _, condition := range c.DependentConditions() {
		is := v1.GetCondition(c, condition)
		switch {
		case is == nil || is.Status == metav1.ConditionUnknown || is.ObservedGeneration != c.Generation:
			return condition + " is not known yet"
		case is.Status == metav1.ConditionFalse:
			return condition + ": " + is.Message
		}
	}
	return ""
}

// follow goes on with a machine that is there.
func (p *Provider) follow(ctx context.Context, claim *v1.NodeClaim, class provider.Class, known *launch, m machine.Machine) (engine.Machine, error) {
	if uid := m.Tag(v1.MachineClaimUIDAnnotationKey); uid != "" && uid != string(claim.UID) {
		return engine.Machine{}, &provider.LaunchError{Reason: "NameTaken", Err: fmt.Errorf("launch %s: machine %s belongs to another claim (%s): wait until it is gone, or delete it", claim.Name, m.Name, uid)}
	}
	pending := func(format string, args ...any) (engine.Machine, error) {
		return engine.Machine{}, &provider.PendingError{What: fmt.Sprintf(format, args...), RetryAfter: lookAgain}
	}
	switch {
	case m.Phase == machine.Creating:
		return pending("machine %s is being made", m.Name)
	case m.Phase == machine.Leaving:
		return pending("machine %s did not come to be, and is being deleted", m.Name)
	case m.Phase == machine.Failed && !m.Powered:
		err := p.giveUp(ctx, claim, known, m)
		if err != nil {
			return engine.Machine{}, err
		}
		return pending("machine %s did not come to be (%s), and is being deleted", m.Name, m.Code)
	}
	described, err := p.launched(ctx, claim, class, known, &m)
	if err != nil {
		return engine.Machine{}, err
	}
	known.machine = &described
	return described, nil
}

// giveUp takes away a machine that Azure had accepted and then did not make. One that runs in spite of that is not given up.
func (p *Provider) giveUp(ctx context.Context, claim *v1.NodeClaim, known *launch, m machine.Machine) error {
	id := p.offeringOf(&m)
	known.nic = "" // it goes with the machine
	refusal := p.marks.RefusedCode(m.Code, m.Message, p.attempt(id))
	p.metrics.failed(image.ID(m.Image), id, claim.Labels[v1.NodePoolLabelKey], "async", m.Code)
	log.FromContext(ctx).Info("machine did not come to be", "NodeClaim", claim.Name, "machine", m.Name, "offering", id.String(), "code", m.Code, "message", m.Message)
	p.config.Tell(provider.Event{Object: claim, Warning: true, Reason: "AsyncProvisioningError", Message: fmt.Sprintf("machine %s of %s: %s: %s", m.Name, id, m.Code, m.Message)})
	if err := p.machines.Delete(ctx, m.Name); err != nil && !errors.Is(err, provider.ErrGone) {
		return asThrottled(fmt.Errorf("launch %s: take away what did not come to be: %w", claim.Name, err))
	}
	if refusal.Other {
		known.refuse(id, m.Code)
		return nil
	}
	known.failed = launchError(claim, cmp.Or(refusal.Reason, "CreateInstanceFailed"), fmt.Errorf("%s: %s", m.Code, m.Message))
	return nil
}

// buy asks for one machine after the other until Azure accepts one.
func (p *Provider) buy(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, class provider.Class, known *launch, note provider.Note) (engine.Machine, error) {
	types, err := p.Catalog(ctx, class)
	if err != nil {
		return engine.Machine{}, asThrottled(fmt.Errorf("launch %s: %w", claim.Name, err))
	}
	list, err := offer.For(class.Corrected(types), claim)
	if err != nil {
		return engine.Machine{}, &provider.LaunchError{Reason: "InstanceTypeResolutionFailed", Err: fmt.Errorf("launch %s: %w", claim.Name, err)}
	}
	rank(list, string(claim.UID))
	asked := 0
	for _, o := range list {
		if why := p.notNow(o); why != "" {
			known.refuse(o.OfferingID, why)
		}
		if known.refused[o.OfferingID] != "" {
			continue
		}
		if asked == attempts {
			break
		}
		asked++
		refusal, err := p.ask(ctx, claim, c, o, known, note)
		if err == nil {
			return engine.Machine{}, &provider.PendingError{What: fmt.Sprintf("machine %s is being made", p.nameOf(claim)), RetryAfter: lookAgain}
		}
		if !refusal.Other {
			return engine.Machine{}, err
		}
		known.refuse(o.OfferingID, refusal.Code)
	}
	p.dropNIC(ctx, known)
	offerings := slices.SortedFunc(maps.Keys(known.refused), func(a, b engine.OfferingID) int { return cmp.Compare(a.String(), b.String()) })
	cause := cmp.Or(known.cause, "all requested instance types were unavailable during launch")
	known.refused, known.cause = map[engine.OfferingID]string{}, ""
	return engine.Machine{}, &provider.SoldOutError{Offerings: offerings, Cause: cause}
}

// rank orders offers as they are tried: by price, then spot before on-demand and zones before no zone in particular. Between zones that
// cost the same the claim's UID decides, so that machines do not all end up in the first.
func rank(list []offer.Offer, uid string) {
	slices.SortFunc(list, func(a, b offer.Offer) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), -cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.InstanceType, b.InstanceType),
			compareBool(a.Zone == assortment.RegionalZone, b.Zone == assortment.RegionalZone), cmp.Compare(draw(uid, a.Zone), draw(uid, b.Zone)))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func draw(uid, zone string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(uid + "/" + zone))
	return h.Sum32()
}

// notNow is why an offer is not to be had, "" if nothing is known against it.
func (p *Provider) notNow(o offer.Offer) string {
	if why := p.marks.Reason(p.attempt(o.OfferingID)); why != "" {
		return why
	}
	return p.market.NoQuota(o.InstanceType, o.CapacityType)
}

func (p *Provider) attempt(id engine.OfferingID) soldout.Attempt {
	figures, known := p.market.Size(id.InstanceType)
	if !known {
		figures.Name = id.InstanceType
	}
	return soldout.Attempt{Size: figures, Zone: id.Zone, CapacityType: id.CapacityType}
}

// ask asks Azure for one machine. It has accepted if there is no error.
func (p *Provider) ask(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, o offer.Offer, known *launch, note provider.Note) (soldout.Refusal, error) {
	order, err := p.order(ctx, claim, c, o)
	if err != nil {
		return soldout.Refusal{}, err
	}
	if word := p.word(claim, c, order.Name); !maps.Equal(known.noted, word) {
		if err := note(ctx, word); err != nil {
			return soldout.Refusal{}, fmt.Errorf("launch %s: leave word of it: %w", claim.Name, err)
		}
		known.noted = word
	}
	if nic := fmt.Sprint(order.Name, order.Network.Accelerated); known.nic != nic {
		if err := p.freeNIC(ctx, claim, order.Name); err != nil {
			return soldout.Refusal{}, err
		}
		if err := p.putNIC(ctx, c, order); err != nil {
			return soldout.Refusal{}, p.failed(claim, "network interface", err)
		}
		known.nic = nic
	}
	pool := claim.Labels[v1.NodePoolLabelKey]
	p.metrics.started(image.ID(order.Image), o.OfferingID, pool)
	decided := p.market.Launching(o.InstanceType, o.CapacityType)
	_, err = p.cloud.BeginVM(ctx, p.config.ResourceGroup, order.Name, order.VM(p.nicID(order.Name)))
	decided()
	if err == nil {
		p.machines.Asked(order.Name)
		return soldout.Refusal{}, nil
	}
	p.metrics.failed(image.ID(order.Image), o.OfferingID, pool, "sync", cloud.Code(err))
	refusal := p.marks.Refused(err, p.attempt(o.OfferingID))
	if refusal.Other {
		log.FromContext(ctx).Info("Azure refused a machine", "NodeClaim", claim.Name, "offering", o.OfferingID.String(), "code", refusal.Code, "message", cloud.Message(err))
		return refusal, err
	}
	if cloud.Passing(err) && !cloud.Throttled(err) {
		p.machines.Asked(order.Name) // it may have been heard
	}
	known.nic = ""
	return refusal, p.failed(claim, "machine", err)
}

// word is what is left on a claim before its machine is asked for: what it is called, and what of its class it was made as, which may
// be another class by the time it runs.
func (p *Provider) word(claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, name string) map[string]string {
	word := map[string]string{
		v1.LaunchTokenAnnotationKey:    name,
		azurev1beta1.HashAnnotationKey: c.Hash(), azurev1beta1.HashVersionAnnotationKey: azurev1beta1.HashVersion,
		azurev1beta1.InPlaceUpdateAnnotationKey: p.inPlaceHash(c),
		v1.AppliedTagsAnnotationKey:             strings.Join(slices.Sorted(maps.Keys(p.tagsOf(claim, c))), ","),
	}
	if !p.selfManaged() {
		maps.Copy(word, kubeletWord(ptr.Deref(c.Status.KubernetesVersion, ""), p.config.KubeletIdentity))
	}
	return word
}

// failed is the error of a launch that another offering would not help.
func (p *Provider) failed(claim *v1.NodeClaim, what string, err error) error {
	if cloud.Canceled(err) {
		return err
	}
	if cloud.Throttled(err) {
		return throttled(err)
	}
	return launchError(claim, "CreateInstanceFailed", fmt.Errorf("make the %s: %w", what, p.explained(err)))
}

func launchError(claim *v1.NodeClaim, reason string, err error) error {
	return &provider.LaunchError{Reason: reason, Err: fmt.Errorf("launch %s: %w", claim.Name, err)}
}

// asThrottled makes the error of a call that Azure refused because there were too many one that says when to come again.
func asThrottled(err error) error {
	if cloud.Throttled(err) {
		return throttled(err)
	}
	return err
}

// throttled says to wait as long as Azure asks, not everybody equally long.
func throttled(err error) error {
	var call *cloud.Error
	errors.As(err, &call)
	return &provider.ThrottledError{Call: call.Call, RetryAfter: max(time.Second, cloud.RetryAfter(err)) + rand.N(2*time.Second)}
}

// freeNIC looks whether the name of a network interface is free, or ours already.
func (p *Provider) freeNIC(ctx context.Context, claim *v1.NodeClaim, name string) error {
	tags, err := p.cloud.NICTags(ctx, p.config.ResourceGroup, name)
	switch {
	case cloud.NotFound(err):
		return nil
	case err != nil:
		return p.failed(claim, "network interface", err)
	case !p.machines.Ours(&machine.Machine{Tags: tags}):
		return launchError(claim, "NameTaken", fmt.Errorf("network interface %s in resource group %s is not this cluster's, by its tags: it is left alone", name, p.config.ResourceGroup))
	}
	return nil
}

// dropNIC takes away the network interface of a launch that got no machine. Azure keeps it for a while for the machine that it was
// refused for: Clean takes it away later.
func (p *Provider) dropNIC(ctx context.Context, known *launch) {
	if known.nic == "" {
		return
	}
	name := strings.TrimSuffix(strings.TrimSuffix(known.nic, "true"), "false")
	known.nic = ""
	if err := p.cloud.DeleteNIC(ctx, p.config.ResourceGroup, name); err != nil {
		log.FromContext(ctx).V(1).Info("network interface stays for now", "name", name, "why", err.Error())
	}
}

// launched is the claim's machine with all that follows from its size and its class.
func (p *Provider) launched(ctx context.Context, claim *v1.NodeClaim, class provider.Class, known *launch, m *machine.Machine) (engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return engine.Machine{}, err
	}
	types, err := p.Catalog(ctx, class)
	if err != nil {
		return engine.Machine{}, asThrottled(fmt.Errorf("launch %s: %w", claim.Name, err))
	}
	out := p.describe(m)
	out.Claim, out.ClaimUID = claim.Name, string(claim.UID)
	switch {
	case known.noted != nil:
		out.Annotations = maps.Clone(known.noted)
	case claim.Annotations[azurev1beta1.HashAnnotationKey] == "": // nobody has left word of what it was made as
		out.Annotations = p.word(claim, c, m.Name)
	}
	types = slices.DeleteFunc(slices.Clone(class.Corrected(types)), func(t engine.InstanceType) bool { return t.Name != m.Size })
	offers, err := offer.For(types, claim)
	if err != nil { // the catalog has changed: the machine is there all the same
		return out, nil
	}
	id := p.offeringOf(m)
	i := max(0, slices.IndexFunc(offers, func(o offer.Offer) bool { return o.OfferingID == id }))
	labels := maps.Clone(offers[i].Labels)
	maps.Copy(labels, out.Labels)
	out.Labels = labels
	out.Capacity, out.Allocatable = offers[i].Type.Capacity.DeepCopy(), offers[i].Type.Allocatable()
	for name, q := range out.Capacity {
		if q.IsZero() {
			delete(out.Capacity, name)
			delete(out.Allocatable, name)
		}
	}
	return out, nil
}

// offeringOf is what a machine was bought as.
func (p *Provider) offeringOf(m *machine.Machine) engine.OfferingID {
	zone := assortment.RegionalZone
	if m.Zone != "" {
		zone = p.cloud.Location + "-" + m.Zone
	}
	return engine.OfferingID{InstanceType: m.Size, Zone: zone, CapacityType: m.CapacityType}
}

// placeLabels are those that follow from where a machine is, and how it is paid for.
func placeLabels(id engine.OfferingID) map[string]string {
	scope, priority := azurev1beta1.PlacementZonal, "regular"
	if id.Zone == assortment.RegionalZone {
		scope = azurev1beta1.PlacementRegional
	}
	if id.CapacityType == v1.CapacityTypeSpot {
		priority = "spot"
	}
	return map[string]string{
		corev1.LabelInstanceTypeStable: id.InstanceType, corev1.LabelTopologyZone: id.Zone, v1.CapacityTypeLabelKey: id.CapacityType,
		azurev1beta1.PlacementScopeLabelKey: scope, azurev1beta1.AKSScaleSetPriorityLabelKey: priority, azurev1beta1.AKSPriorityLabelKey: priority,
	}
}
