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

// refusals is what one launch found to have no capacity, and why.
type refusals struct {
	why   map[engine.OfferingID]string
	cause string // the first that EC2 named
	short string // that EC2 started fewer machines than it was asked for, if it named no cause
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

// add notes what EC2 refused. Offers of a zone in which only a subnet was full may be had in another subnet: the marks say
// so. If EC2 did not even name offerings, and has started others, all that was asked for stand in the meantime as they were.
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

// markedIn notes the offers of a kind that the catalog or the marks call sold out.
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

// asError is the error of a launch that got nothing. If EC2 started some machines each time, just not enough, nothing is
// sold out: the claim stays, and asks again.
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
