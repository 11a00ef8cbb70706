package aws

import (
	"cmp"
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
// so. If EC2 did not even name offerings, all that was asked for stand in the meantime as they were.
func (r *refusals) add(list []fleet.Refusal, asked []offer.Offer) {
	for _, refusal := range list {
		r.cause = cmp.Or(r.cause, refusal.Code)
		if refusal.Subnet != "" && refusal.NoAddress() {
			continue
		}
		for _, o := range asked {
			if o.OfferingID == refusal.OfferingID || refusal.NoSpot() {
				r.put(o.OfferingID, refusal.Code)
			}
		}
	}
}

// markedIn notes the offers of a tier that the catalog or the marks call sold out.
func (r *refusals) markedIn(tier []offer.Offer, p *Provider, c *awsv1.EC2NodeClass) {
	for _, o := range tier {
		why := p.marked(c, o)
		if why == "" && o.SoldOut {
			why = "SoldOut"
		}
		if why != "" {
			r.put(o.OfferingID, why)
		}
	}
}

func (r *refusals) asError() error {
	list := slices.SortedFunc(maps.Keys(r.why), func(a, b engine.OfferingID) int { return cmp.Compare(a.String(), b.String()) })
	cause := r.cause
	if cause == "" && len(list) > 0 {
		cause = r.why[list[0]]
	}
	return &provider.SoldOutError{Offerings: list, Cause: cmp.Or(cause, "all requested instance types were unavailable during launch")}
}
