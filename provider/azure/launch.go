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
	// lookAgain is the time until the next look at a machine that is awaited.
	lookAgain = 5 * time.Second
	// attempts is the number of machines that one launch asks for if Azure refuses each immediately. Refusals are marked, so the next plan avoids
	// them.
	attempts = 8
)

// Launch calls LaunchNoted with a function that writes the annotations of the launch on the claim in the API server.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	return p.LaunchNoted(ctx, claim, class, func(ctx context.Context, annotations map[string]string) error {
		changed := claim.DeepCopy()
		stamp.Annotate(changed, annotations)
		return p.client.Patch(ctx, changed, client.MergeFrom(claim))
	})
}

// LaunchNoted starts the machine that a claim describes, at the cheapest offering with capacity. Azure needs time to start a machine, and may
// find out late that it has no capacity. Meanwhile LaunchNoted returns a PendingError, and the next call continues, with another machine if
// necessary.
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

// unready returns the reason why no machine can be started from a class, "" if one can.
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

// follow continues a launch whose machine exists.
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

// giveUp deletes a machine that Azure accepted but could not make. A machine that runs in spite of its failure is not given up.
func (p *Provider) giveUp(ctx context.Context, claim *v1.NodeClaim, known *launch, m machine.Machine) error {
	id := p.offeringOf(&m)
	known.nic = "" // it goes with the machine
	refusal := p.marks.RefusedCode(m.Code, m.Message, p.attempt(id))
	p.metrics.failed(image.ID(m.Image), id, claim.Labels[v1.NodePoolLabelKey], "async", m.Code)
	log.FromContext(ctx).Info("machine failed to start", "NodeClaim", claim.Name, "machine", m.Name, "offering", id.String(), "code", m.Code, "message", m.Message)
	p.config.Tell(provider.Event{Object: claim, Warning: true, Reason: "AsyncProvisioningError", Message: fmt.Sprintf("machine %s of %s: %s: %s", m.Name, id, m.Code, m.Message)})
	if err := p.machines.Delete(ctx, m.Name); err != nil && !errors.Is(err, provider.ErrGone) {
		return asThrottled(fmt.Errorf("launch %s: delete the failed machine: %w", claim.Name, err))
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

// rank sorts offers in the order in which they are tried: by price, then spot before on-demand, then by type, then offers with a zone before those
// without one. Among zones with the same price, the claim's UID decides, so that not all machines are in the first zone.
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

// notNow returns the reason why an offer cannot be used now, "" if there is none.
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

// ask asks Azure for one machine. Without an error, Azure has accepted.
func (p *Provider) ask(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, o offer.Offer, known *launch, note provider.Note) (soldout.Refusal, error) {
	order, err := p.order(ctx, claim, c, o)
	if err != nil {
		return soldout.Refusal{}, err
	}
	if word := p.word(claim, c, order.Name); !maps.Equal(known.noted, word) {
		if err := note(ctx, word); err != nil {
			return soldout.Refusal{}, fmt.Errorf("launch %s: write the machine's annotations to the claim: %w", claim.Name, err)
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
		p.machines.Asked(order.Name) // Azure may have received the call
	}
	known.nic = ""
	return refusal, p.failed(claim, "machine", err)
}

// word returns the annotations that are written on a claim before its machine is requested: the machine's name, and hashes of its class,
// because the class may have changed by the time the machine runs.
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

// failed returns the error of a launch for which another offering would not help.
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

// asThrottled turns the error of a throttled call into one with a time to wait.
func asThrottled(err error) error {
	if cloud.Throttled(err) {
		return throttled(err)
	}
	return err
}

// throttled returns an error with Azure's time to wait plus a random time, so that callers do not return at the same time.
func throttled(err error) error {
	var call *cloud.Error
	errors.As(err, &call)
	return &provider.ThrottledError{Call: call.Call, RetryAfter: max(time.Second, cloud.RetryAfter(err)) + rand.N(2*time.Second)}
}

// freeNIC returns an error if a network interface of this name belongs to another cluster.
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

// dropNIC deletes the network interface of a launch without a machine. Azure reserves it for the refused machine for a while, so this may
// fail; Clean deletes it later.
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

// launched returns the claim's machine with all properties that follow from its size and its class.
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
	case claim.Annotations[azurev1beta1.HashAnnotationKey] == "": // no process has noted its class
		out.Annotations = p.word(claim, c, m.Name)
	}
	types = slices.DeleteFunc(slices.Clone(class.Corrected(types)), func(t engine.InstanceType) bool { return t.Name != m.Size })
	offers, err := offer.For(types, claim)
	if err != nil { // the catalog has changed, but the machine exists
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

// offeringOf returns the offering of a machine.
func (p *Provider) offeringOf(m *machine.Machine) engine.OfferingID {
	zone := assortment.RegionalZone
	if m.Zone != "" {
		zone = p.cloud.Location + "-" + m.Zone
	}
	return engine.OfferingID{InstanceType: m.Size, Zone: zone, CapacityType: m.CapacityType}
}

// placeLabels returns the labels that follow from a machine's zone and capacity type.
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
