package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/pace"
	"tenon.sh/provider/aws/template"
)

// create asks EC2 for n machines. It returns the started machines; the error is the reason if they are fewer than n.
func (f *Fleet) create(ctx context.Context, order *Order, offers []Offer, n int, clientToken, token string) ([]Started, error) {
	subnets := f.Addresses.Choose(order.Subnets)
	offers = slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { _, found := subnets[o.Zone]; return !found })
	if len(offers) == 0 {
		return nil, &RefusedError{}
	}
	giveBack := f.take(offers, subnets, n)
	started, err := f.try(ctx, order, offers, subnets, n, clientToken, token)
	if missing(err) { // another program has deleted a template
		for _, t := range order.Templates {
			f.Templates.Forget(t.Name)
		}
		started, err = f.try(ctx, order, offers, subnets, n, clientToken+"-again", token)
	}
	used := map[string]bool{}
	for _, s := range started {
		used[s.Subnet] = true
	}
	for id, give := range giveBack {
		if !used[id] {
			give()
		}
	}
	return started, err
}

// missing reports whether no machine was started because a launch template is missing.
func missing(err error) bool {
	if refused, ok := err.(*RefusedError); ok {
		return slices.ContainsFunc(refused.Refusals, func(r Refusal) bool { return r.noTemplate() })
	}
	code := cloud.Code(err)
	return code == codeNoTemplate || code == codeNoTemplate2
}

// take records the addresses that n machines would take of each subnet in the request. EC2 will use only one or a few of the zones; the
// caller gives the other addresses back.
func (f *Fleet) take(offers []Offer, subnets map[string]awsv1.Subnet, n int) map[string]func() {
	least := map[string]int{}
	for _, o := range offers {
		id := subnets[o.Zone].ID
		if had, found := least[id]; !found || o.Addresses < had {
			least[id] = o.Addresses
		}
	}
	out := map[string]func(){}
	for id, addresses := range least {
		out[id] = f.Addresses.Take(id, addresses*n)
	}
	return out
}

// try makes the templates and calls EC2 once.
func (f *Fleet) try(ctx context.Context, order *Order, offers []Offer, subnets map[string]awsv1.Subnet, n int, clientToken, token string) ([]Started, error) {
	var needed []*template.Template
	for i, t := range order.Templates {
		if slices.ContainsFunc(offers, func(o Offer) bool { return o.Template == i }) {
			needed = append(needed, t)
		}
	}
	if err := f.Templates.Ensure(ctx, needed); err != nil {
		return nil, err
	}
	if err := f.Cloud.Pace.Wait(ctx, pace.Machines, n); err != nil {
		return nil, err
	}
	answer, err := f.Cloud.EC2.CreateFleet(ctx, input(order, offers, subnets, n, clientToken, token))
	if err == nil {
		return f.read(order, offers, subnets, n, token, answer)
	}
	if cloud.Throttled(err) {
		f.Cloud.Pace.Complained(pace.Machines)
		return nil, err
	}
	if r := (Refusal{Code: cloud.Code(err), Message: err.Error()}); noCapacity(r.Code) || r.Code == codeNoSpotRole {
		return nil, f.refused(order, everything(offers, r.Code, r.Message))
	}
	err = fmt.Errorf("create a fleet of %d for NodePool %s: %w", n, order.Pool, err)
	if cloud.Passing(err) {
		return nil, &UnansweredError{err}
	}
	return nil, err
}

func everything(offers []Offer, code, message string) (out []Refusal) {
	for _, o := range offers {
		out = append(out, Refusal{OfferingID: o.OfferingID, Code: code, Message: message})
	}
	return out
}

// named replaces refusals that name no offering by refusals of all offers, for calls that started no machine. Otherwise the next plan would
// choose the same offerings again.
func named(refusals []Refusal, offers []Offer) (out []Refusal) {
	for _, r := range refusals {
		if r.InstanceType == "" && noCapacity(r.Code) {
			out = append(out, everything(offers, r.Code, r.Message)...)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// read reads EC2's answer: machines, and errors.
func (f *Fleet) read(order *Order, offers []Offer, subnets map[string]awsv1.Subnet, n int, token string, answer *ec2.CreateFleetOutput) ([]Started, error) {
	var started []Started
	for _, group := range answer.Instances {
		zone, subnet := where(group.LaunchTemplateAndOverrides, order.Subnets)
		i := slices.IndexFunc(offers, func(o Offer) bool { return o.InstanceType == string(group.InstanceType) && o.Zone == zone })
		for _, id := range group.InstanceIds {
			s := Started{ID: id, Subnet: subnet, ZoneID: subnets[zone].ZoneID, Token: token}
			if s.Offer = (Offer{OfferingID: engine.OfferingID{InstanceType: string(group.InstanceType), Zone: zone, CapacityType: order.CapacityType}}); i >= 0 {
				s.Offer = offers[i]
			}
			f.trials.succeeded(s.Offer.OfferingID)
			if s.Offer.Reservation != "" {
				f.Slots.Used(s.Offer.Reservation)
			}
			started = append(started, s)
		}
	}
	var refusals []Refusal
	for _, e := range answer.Errors {
		refusals = append(refusals, refusalOf(e, order, offers))
	}
	if len(started) == 0 {
		refusals = named(refusals, offers)
	}
	switch {
	case len(refusals) == 0 && len(started) == 0:
		refusals = everything(offers, "UnfulfillableCapacity", "EC2 started nothing, and does not say why")
	case len(refusals) == 0 && len(started) < n:
		refusals = []Refusal{{OfferingID: engine.OfferingID{CapacityType: order.CapacityType}, Code: codeTooFew, Message: fmt.Sprintf("EC2 started %d of %d machines, and does not say why", len(started), n)}}
	}
	if refused := f.refused(order, refusals); len(started) < n {
		return started, refused
	}
	return started, nil
}

// where returns the zone and subnet that EC2 chose; EC2 repeats the override from the request.
func where(chosen *ec2types.LaunchTemplateAndOverridesResponse, subnets []awsv1.Subnet) (zone, subnet string) {
	if chosen == nil || chosen.Overrides == nil {
		return "", ""
	}
	zone, subnet = aws.ToString(chosen.Overrides.AvailabilityZone), aws.ToString(chosen.Overrides.SubnetId)
	for _, s := range subnets {
		if zone == "" && s.ID == subnet {
			zone = s.Zone
		}
	}
	return zone, subnet
}

func refusalOf(e ec2types.CreateFleetError, order *Order, offers []Offer) Refusal {
	r := Refusal{Code: aws.ToString(e.ErrorCode), Message: aws.ToString(e.ErrorMessage)}
	r.CapacityType = order.CapacityType
	if chosen := e.LaunchTemplateAndOverrides; chosen != nil && chosen.Overrides != nil {
		r.Zone, r.Subnet = where(chosen, order.Subnets)
		r.InstanceType = string(chosen.Overrides.InstanceType)
	}
	for _, o := range offers {
		if o.InstanceType == r.InstanceType && o.Zone == r.Zone {
			r.Reservation = o.Reservation
		}
	}
	return r
}

// refused records the offerings without capacity, so that later launches avoid them for a while.
func (f *Fleet) refused(order *Order, refusals []Refusal) error {
	for i := range refusals {
		r := &refusals[i]
		if f.Refused != nil {
			f.Refused(*r, order.place(r.Zone).ZoneID)
		}
		switch {
		case !r.NoCapacity() || r.InstanceType == "" && r.Code != codeNoSpotRole:
		case r.Code == codeNoSpotRole:
			f.Marks.CapacityType(v1.CapacityTypeSpot, r.Code)
		case r.Reservation != "":
			if !r.spreadLimit() {
				f.Slots.Exhausted(r.Reservation)
			}
		case r.spreadLimit():
			for _, o := range order.Offers {
				if o.Zone == r.Zone {
					f.Marks.Offering(o.OfferingID, order.Group, "", r.Code)
				}
			}
		case r.Code == codeNoAddress && r.Subnet != "":
			f.Marks.Subnet(r.Subnet, r.Code)
			f.Addresses.Exhausted(r.Subnet)
		default:
			f.Marks.Offering(r.OfferingID, order.Group, order.Partition, r.Cause())
			f.trials.failed(r.OfferingID)
		}
	}
	return &RefusedError{refusals}
}
