package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/pace"
	"tenon.sh/provider/aws/userdata"
	"tenon.sh/provider/fresh"
	"tenon.sh/provider/offer"
)

const (
	// rehearsalAge is the time for which a successful rehearsal counts, refusedAge that of a failed one. The latter is short, because users
	// may correct the cause without a change of the class.
	rehearsalAge, refusedAge = 30 * time.Minute, 2 * time.Minute
	// spareWrites is the number of calls that are left for launches.
	spareWrites = 24
)

// rehearsals caches the results of rehearsals.
type rehearsals struct{ good, bad *fresh.Cache[string, verdict] }

// rehearse finds out by a dry run whether machines of the class can be started, before any pod waits for one.
func (p *Provider) rehearse(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	if p.config.DisableDryRun {
		return verdict{}
	}
	pools, err := p.poolsOf(ctx, c.Name)
	if err != nil {
		return verdict{err: err}
	}
	key := rehearsalKey(c, pools)
	for _, cache := range []*fresh.Cache[string, verdict]{p.rehearsals.good, p.rehearsals.bad} {
		if v, known := cache.Peek(key); known {
			return v
		}
	}
	if was := v1.GetCondition(c, awsv1.ConditionValidationSucceeded); was != nil && was.Status == metav1.ConditionTrue &&
		was.ObservedGeneration == c.Generation && p.cloud.Pace.Left(pace.Writes) < spareWrites {
		return verdict{} // parallel rehearsals of many classes would delay launches
	}
	v, keep := p.rehearsed(ctx, c, pools)
	switch {
	case v == (verdict{}):
		p.rehearsals.good.Put(key, v)
	case keep:
		p.rehearsals.bad.Put(key, v)
	}
	return v
}

// rehearsed does the dry run. keep is true if a repetition would soon give the same result.
func (p *Provider) rehearsed(ctx context.Context, c *awsv1.EC2NodeClass, pools []v1.NodePool) (v verdict, keep bool) {
	order, err := p.rehearsalOrder(ctx, c, pools)
	if large := (userdata.TooLargeError{}); errors.As(err, &large) {
		return wrong(awsv1.ReasonUserDataTooLarge, "%v", err), true
	}
	if err != nil {
		return verdict{err: err}, false
	}
	failed := (*fleet.RehearsalError)(nil)
	if !errors.As(p.fleet.Rehearse(ctx, order), &failed) {
		return verdict{}, false
	}
	text := cloud.Text(failed)
	switch {
	case cloud.Denied(failed):
		return wrong(rehearsalReason(failed.Call), "%s", text), true
	case strings.Contains(text, "User data is limited to"):
		return wrong(awsv1.ReasonUserDataTooLarge, "%s", text), true
	case failed.NoProfile() && c.Spec.InstanceProfile != nil:
		return wrong(awsv1.ReasonInstanceProfileNotFound, "instance profile %s, which spec.instanceProfile names, does not exist, or has no role: %s", *c.Spec.InstanceProfile, text), true
	}
	// EC2 learns of a new profile after a short time, and new credentials do not change the class.
	return verdict{err: failed}, !cloud.Passing(failed) && !cloud.Unknown(failed) && !failed.NoProfile()
}

func rehearsalReason(call string) string {
	switch call {
	case fleet.CallCreateLaunchTemplate:
		return awsv1.ReasonCreateLaunchTemplateAuthFailed
	case fleet.CallCreateFleet:
		return awsv1.ReasonCreateFleetAuthFailed
	}
	return awsv1.ReasonRunInstancesAuthFailed
}

// rehearsalKey changes with every input of a rehearsal. It ignores the order of subnets, because the order changes whenever addresses are
// taken.
func rehearsalKey(c *awsv1.EC2NodeClass, pools []v1.NodePool) string {
	subnets := map[string]bool{}
	for _, s := range c.Status.Subnets {
		subnets[s.ID] = true
	}
	parts := []any{c.UID, c.Spec, c.Annotations, subnets, c.Status.SecurityGroups, c.Status.AMIs, c.Status.InstanceProfile}
	for i := range pools {
		parts = append(parts, pools[i].Name, pools[i].Spec.Template.Spec.Requirements)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic("write the fields of EC2NodeClass " + c.Name + ": " + err.Error()) // they are all plain values
	}
	return string(text)
}

// poolsOf returns the NodePools that refer to a class, ordered by name.
func (p *Provider) poolsOf(ctx context.Context, class string) ([]v1.NodePool, error) {
	var pools v1.NodePoolList
	if err := p.client.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("list the NodePools of EC2NodeClass %s: %w", class, err)
	}
	out := slices.DeleteFunc(pools.Items, func(pool v1.NodePool) bool {
		ref := pool.Spec.Template.Spec.NodeClassRef
		return ref == nil || ref.Group != awsv1.Group || ref.Name != class
	})
	slices.SortFunc(out, func(a, b v1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// rehearsalOrder makes an order for the machine that the class's NodePools are most likely to start.
func (p *Provider) rehearsalOrder(ctx context.Context, c *awsv1.EC2NodeClass, pools []v1.NodePool) (*fleet.Order, error) {
	types, err := p.Catalog(ctx, provider.Class{Ref: v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: c.Name}, Object: c})
	if err != nil {
		return nil, err
	}
	claim := &v1.NodeClaim{}
	claim.Labels = map[string]string{v1.NodePoolLabelKey: c.Name} // policies demand a value, but accept any
	var offers []offer.Offer
	dedicated := false
	for i := range pools {
		requirements := pools[i].Spec.Template.Spec.Requirements
		dedicated = dedicated || asksFor(requirements, awsv1.TenancyLabelKey, "dedicated")
		if len(offers) == 0 {
			claim.Labels[v1.NodePoolLabelKey] = pools[i].Name
			offers, _ = offer.For(types, claimOf(requirements)) // a NodePool without an offer gets its message elsewhere
		}
	}
	if len(offers) == 0 {
		offers = anyOffers(types)
	}
	chosen, found := likeliest(c, offers)
	if !found {
		return nil, fmt.Errorf("EC2NodeClass %s: no instance type can be started from its images in its zones", c.Name)
	}
	if dedicated {
		chosen.Labels = maps.Clone(chosen.Labels)
		chosen.Labels[awsv1.TenancyLabelKey] = "dedicated"
	}
	return p.order(ctx, claim, c, []offer.Offer{chosen})
}

func claimOf(requirements []v1.Requirement) *v1.NodeClaim {
	return &v1.NodeClaim{Spec: v1.NodeClaimSpec{Requirements: requirements}}
}

func asksFor(requirements []v1.Requirement, key, value string) bool {
	return slices.ContainsFunc(requirements, func(r v1.Requirement) bool {
		return r.Key == key && r.Operator == v1.In && slices.Contains(r.Values, value)
	})
}

// anyOffers returns offers of common types, or of all types if the catalog has no common one.
func anyOffers(types []engine.InstanceType) []offer.Offer {
	for _, requirements := range [][]v1.Requirement{{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m5.large", "m6g.large"}}}, nil} {
		if list, err := offer.For(types, claimOf(requirements)); err == nil {
			return list
		}
	}
	return nil
}

// likeliest returns the cheapest available on-demand offer of an ordinary type; if there is none, the cheapest of all.
func likeliest(c *awsv1.EC2NodeClass, offers []offer.Offer) (offer.Offer, bool) {
	offers = slices.DeleteFunc(unlessExotic(offers), func(o offer.Offer) bool { return images.For(c.Status.AMIs, o.Type) == nil })
	if len(offers) == 0 {
		return offer.Offer{}, false
	}
	i := slices.IndexFunc(offers, func(o offer.Offer) bool { return o.CapacityType == v1.CapacityTypeOnDemand && !o.SoldOut })
	return offers[max(i, 0)], true
}
