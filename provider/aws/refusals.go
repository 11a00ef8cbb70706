package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/offer"
)

// refusals holds the offerings that one launch found without capacity, with reasons.
type refusals struct {
	why   map[engine.OfferingID]string
	cause string // the first cause that EC2 named
	short string // the message, if EC2 started fewer machines than requested without a cause
}

func (r *refusals) put(id engine.OfferingID, why string) {
	if r.why == nil {
		r.why = map[engine.OfferingID]string{}
	}
	if r.why[id] == "" {
		r.why[id] = why
	}
}

func (r *refusals) has(id engine.OfferingID) bool { return r.why[id] != "" }

// add records EC2's refusals. If only a subnet was full, the offers of its zone are not added, because another subnet may have addresses: the
// marks have the full subnet. If EC2 started some machines and named no offering, it adds none.
func (r *refusals) add(list []fleet.Refusal, asked []offer.Offer) {
	for _, refusal := range list {
		if refusal.TooFew() {
			r.short = cmp.Or(r.short, refusal.Message)
			continue
		}
		r.cause = cmp.Or(r.cause, refusal.Cause())
		if refusal.Subnet != "" && refusal.NoAddress() {
			continue
		}
		for _, o := range asked {
			if o.OfferingID == refusal.OfferingID || refusal.NoSpot() {
				r.put(o.OfferingID, refusal.Cause())
			}
		}
	}
}

// markedIn adds the offers of a kind that the catalog or the marks call sold out.
func (r *refusals) markedIn(kind []offer.Offer, p *Provider, c *awsv1.EC2NodeClass) {
	for _, o := range kind {
		why := p.marked(c, o)
		if why == "" && o.SoldOut {
			why = "SoldOut"
		}
		if why != "" {
			r.put(o.OfferingID, why)
		}
	}
}

// asError returns the error of a launch without a machine. If EC2 only started too few machines each time, it is no SoldOutError: the claim
// stays, and is launched again.
func (r *refusals) asError(claim string) error {
	if len(r.why) == 0 && r.short != "" {
		return &provider.LaunchError{Reason: "TooFewInstancesReturned", Err: fmt.Errorf("launch %s: it got none of the machines that were asked for: %s", claim, r.short)}
	}
	list := slices.SortedFunc(maps.Keys(r.why), func(a, b engine.OfferingID) int { return cmp.Compare(a.String(), b.String()) })
	cause := r.cause
	if cause == "" && len(list) > 0 {
		cause = r.why[list[0]]
	}
	return &provider.SoldOutError{Offerings: list, Cause: cmp.Or(cause, "all requested instance types were unavailable during launch")}
}
