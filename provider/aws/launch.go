package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/soldout"
	"tenon.sh/provider/aws/userdata"
	"tenon.sh/provider/offer"
	"tenon.sh/provider/stamp"
)

// rounds is the largest number of attempts of one launch for each kind of capacity. Each attempt leaves out offerings that had no capacity.
const rounds = 4

var (
	_ provider.Provider   = &Provider{}
	_ provider.Foreteller = &Provider{}
)

// Launch calls LaunchNoted with a function that writes the annotations of the launch on the claim in the API server.
func (p *Provider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	return p.LaunchNoted(ctx, claim, class, func(ctx context.Context, annotations map[string]string) error {
		changed := claim.DeepCopy()
		stamp.Annotate(changed, annotations)
		return p.client.Patch(ctx, changed, client.MergeFrom(claim))
	})
}

// LaunchNoted starts the machine that a claim describes. It tries reserved capacity first, then spot, then on-demand. It skips offerings
// without capacity in the same call.
func (p *Provider) LaunchNoted(ctx context.Context, claim *v1.NodeClaim, class provider.Class, note provider.Note) (engine.Machine, error) {
	c, err := classOf(class)
	if err != nil {
		return engine.Machine{}, err
	}
	unlock, err := p.ledger.lock(ctx, claim.UID)
	if err != nil {
		return engine.Machine{}, err
	}
	defer unlock()
	if m, found := p.ledger.started(claim.UID); found {
		return m, ctx.Err()
	}
	token := claim.Annotations[v1.LaunchTokenAnnotationKey]
	if noted := p.ledger.token(claim.UID); noted != "" {
		token = noted // the claim may have been read before the token was written on it
	}
	if token != "" && !p.fleet.Tokens.Settled(token) {
		if m, found, err := p.adopt(ctx, claim, class, token); found || err != nil {
			return m, err
		}
	}
	if problem := unready(c); problem != "" {
		return engine.Machine{}, &provider.ClassNotReadyError{Class: c.Name, Problem: problem}
	}
	return p.buy(ctx, claim, c, class, note)
}

// unready returns the reason why no machine can be started from a class, "" if one can.
func unready(c *awsv1.EC2NodeClass) string {
	if c.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	if tags := c.RestrictedTags(); len(tags) > 0 {
		return "spec.tags: " + strings.Join(tags, ", ") + " are set by the controller"
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

// buy asks for one kind of capacity after the other, and repeats the request for a kind without the offerings that had no capacity.
func (p *Provider) buy(ctx context.Context, claim *v1.NodeClaim, c *awsv1.EC2NodeClass, class provider.Class, note provider.Note) (engine.Machine, error) {
	types, err := p.Catalog(ctx, class)
	if err != nil {
		return engine.Machine{}, fmt.Errorf("launch %s: %w", claim.Name, err)
	}
	list, err := offer.For(class.Corrected(types), withoutSwitches(claim))
	if err != nil {
		return engine.Machine{}, &provider.LaunchError{Reason: "InstanceTypeResolutionFailed", Err: fmt.Errorf("launch %s: %w", claim.Name, err)}
	}
	soldOut := &refusals{}
	for _, kind := range capacityTypeOrder(list, claim) {
		for range rounds {
			left := p.available(c, kind, soldOut)
			if len(left) == 0 {
				break
			}
			o, err := p.order(ctx, claim, c, left)
			if err != nil {
				return engine.Machine{}, orderError(claim, c, err)
			}
			started, err := p.start(ctx, claim, o, note)
			if err == nil {
				return p.settle(claim, c, list, started), nil
			}
			if err := p.failed(claim, left, soldOut, err); err != nil {
				return engine.Machine{}, err
			}
		}
		soldOut.markedIn(kind, p, c)
	}
	return engine.Machine{}, soldOut.asError(claim.Name)
}

// start asks for a machine, and remembers the token of the call.
func (p *Provider) start(ctx context.Context, claim *v1.NodeClaim, o *fleet.Order, note provider.Note) (fleet.Started, error) {
	return p.fleet.Start(ctx, o, fleet.Claim{Name: claim.Name, UID: string(claim.UID)}, func(ctx context.Context, token string) error {
		if err := note(ctx, map[string]string{v1.LaunchTokenAnnotationKey: token}); err != nil {
			return fmt.Errorf("launch %s: write the launch token to the claim: %w", claim.Name, err)
		}
		p.ledger.noted(claim.UID, token)
		return nil
	})
}

// settle remembers the claim's machine.
func (p *Provider) settle(claim *v1.NodeClaim, c *awsv1.EC2NodeClass, list []offer.Offer, s fleet.Started) engine.Machine {
	m := p.launched(claim, c, list, s)
	p.ledger.settle(claim, m)
	return m
}

// failed decides whether another round makes sense: it returns nil if it does, else the error of the launch.
func (p *Provider) failed(claim *v1.NodeClaim, asked []offer.Offer, soldOut *refusals, err error) error {
	refused := (*fleet.RefusedError)(nil)
	unanswered := (*fleet.UnansweredError)(nil)
	wrap := func(reason string) error {
		return &provider.LaunchError{Reason: reason, Err: cloud.Worded{Err: fmt.Errorf("launch %s: %w", claim.Name, err)}}
	}
	switch {
	case errors.As(err, &unanswered):
		return wrap("LaunchUnanswered")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case cloud.Throttled(err):
		return throttled("ec2:CreateFleet")
	case !errors.As(err, &refused):
		return wrap(fleet.Reason(cloud.Code(err), err.Error()))
	}
	other := refused.Other()
	if slices.ContainsFunc(refused.Refusals, func(r fleet.Refusal) bool { return r.NoSpot() }) {
		p.config.Tell(provider.Event{Object: claim, Warning: true, Reason: "SpotSLRCreationFailed", Message: "EC2 starts no spot machines: the account has no " +
			"service-linked role for them, and the controller may not make it. Run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"})
	}
	switch {
	case other == nil || other.TooFew():
		soldOut.add(refused.Refusals, asked)
		return nil
	case other.Throttled():
		return throttled("ec2:CreateFleet")
	}
	return wrap(fleet.Reason(other.Code, other.Message))
}

// throttled returns an error with a random time to wait, so that callers do not return at the same time.
func throttled(call string) error {
	return &provider.ThrottledError{Call: call, RetryAfter: time.Second + rand.N(2*time.Second)}
}

// orderError returns the launch error for a class that cannot be turned into an order.
func orderError(claim *v1.NodeClaim, c *awsv1.EC2NodeClass, err error) error {
	reason := "LaunchTemplateResolutionFailed"
	if large := (userdata.TooLargeError{}); errors.As(err, &large) {
		reason = awsv1.ReasonUserDataTooLarge
	}
	if cloud.Throttled(err) {
		return throttled(cloud.ActionOf(err))
	}
	return &provider.LaunchError{Reason: reason, Err: cloud.Worded{Err: fmt.Errorf("launch %s with EC2NodeClass %s: %w", claim.Name, c.Name, err)}}
}

// available returns the offers of a kind that are not known to be sold out.
func (p *Provider) available(c *awsv1.EC2NodeClass, kind []offer.Offer, soldOut *refusals) []offer.Offer {
	return slices.DeleteFunc(slices.Clone(kind), func(o offer.Offer) bool {
		return o.SoldOut || soldOut.has(o.OfferingID) || p.marked(c, o) != ""
	})
}

// marked returns the reason why an offering had no capacity lately, "" if it is not known to be sold out.
func (p *Provider) marked(c *awsv1.EC2NodeClass, o offer.Offer) string {
	if o.Reservation != "" {
		if p.finder.Slots.Free(o.Reservation) <= 0 {
			return "ReservationCapacityExceeded"
		}
		return ""
	}
	place := soldout.Place{Zone: o.Zone, Group: o.Labels[awsv1.PlacementGroupIDLabelKey]}
	for _, s := range c.Status.Subnets {
		if s.Zone == o.Zone {
			place.ZoneID = s.ZoneID
			place.Subnets = append(place.Subnets, s.ID)
		}
	}
	return p.marks.Reason(o.InstanceType, o.CapacityType, place)
}
