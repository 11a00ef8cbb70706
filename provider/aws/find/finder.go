// Package find finds the objects in the account to which a node class refers: subnets, security groups, images, the instance profile,
// capacity reservations, the placement group. It reads, and makes instance profiles. Package aws reports missing objects.
package find

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/fresh"
)

// The times for which answers are kept.
const (
	shortAge         = time.Minute // groups, reservations
	profileAge       = 15 * time.Minute
	missingRoleAge   = time.Minute
	protectedAge     = time.Hour
	parameterAge     = 24 * time.Hour   // aliases
	ownParameterAge  = 5 * time.Minute  // parameters that users write themselves
	placementDataAge = 24 * time.Hour   // for a placement group while EC2 does not answer
	blockEndsBefore  = 40 * time.Minute // a capacity block counts as expiring from this time before its end
)

// Config holds the settings of a Finder.
type Config struct {
	Cloud   *cloud.Cloud
	Clock   clock.PassiveClock
	Cluster string
	// AMIRefresh and SubnetRefresh are the times for which images and subnets are kept; 0 means a minute.
	AMIRefresh, SubnetRefresh time.Duration
}

// Finder finds the objects of classes. Classes with the same selectors share the answer. It may be used from several goroutines.
type Finder struct {
	cloud   *cloud.Cloud
	clock   clock.PassiveClock
	cluster string

	// Addresses counts the free addresses of subnets.
	Addresses *Addresses
	// Slots counts the free machines of capacity reservations.
	Slots *Slots

	subnets      *fresh.Cache[string, []Subnet]
	groups       *fresh.Cache[string, []awsv1.SecurityGroup]
	images       *fresh.Cache[string, []Image]
	parameters   *fresh.Cache[string, parameter]
	own          *fresh.Cache[string, parameter]
	reservations *fresh.Cache[string, []Reservation]
	placements   *fresh.Cache[awsv1.PlacementGroupSelector, *PlacementGroup]
	// remembered holds placement groups for times when EC2 does not answer.
	remembered *fresh.Cache[awsv1.PlacementGroupSelector, *PlacementGroup]
	profiles   *fresh.Cache[string, *profile]
	noRole     *fresh.Cache[string, struct{}]
	protected  *fresh.Cache[string, struct{}]
}

// New makes a Finder. It calls no service.
func New(cfg Config) *Finder {
	if cfg.AMIRefresh == 0 {
		cfg.AMIRefresh = time.Minute
	}
	if cfg.SubnetRefresh == 0 {
		cfg.SubnetRefresh = time.Minute
	}
	return &Finder{
		cloud:        cfg.Cloud,
		clock:        cfg.Clock,
		cluster:      cfg.Cluster,
		Addresses:    newAddresses(cfg.Clock, max(5*time.Minute, cfg.SubnetRefresh+4*time.Minute)),
		Slots:        newSlots(),
		subnets:      fresh.New[string, []Subnet](cfg.Clock, cfg.SubnetRefresh),
		groups:       fresh.New[string, []awsv1.SecurityGroup](cfg.Clock, shortAge),
		images:       fresh.New[string, []Image](cfg.Clock, cfg.AMIRefresh),
		parameters:   fresh.New[string, parameter](cfg.Clock, parameterAge),
		own:          fresh.New[string, parameter](cfg.Clock, ownParameterAge),
		reservations: fresh.New[string, []Reservation](cfg.Clock, shortAge),
		placements:   fresh.New[awsv1.PlacementGroupSelector, *PlacementGroup](cfg.Clock, shortAge),
		remembered:   fresh.New[awsv1.PlacementGroupSelector, *PlacementGroup](cfg.Clock, placementDataAge),
		profiles:     fresh.New[string, *profile](cfg.Clock, profileAge),
		noRole:       fresh.New[string, struct{}](cfg.Clock, missingRoleAge),
		protected:    fresh.New[string, struct{}](cfg.Clock, protectedAge),
	}
}

// filter is a filter of a Describe call.
func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}

// tagFilters returns filters for objects with all of the tags; the value * matches any value.
func tagFilters(tags awsv1.Tags) []ec2types.Filter {
	var out []ec2types.Filter
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if tags[key] == "*" {
			out = append(out, filter("tag-key", key))
		} else {
			out = append(out, filter("tag:"+key, tags[key]))
		}
	}
	return out
}

// keyOf returns the same text for equal selectors in the same order.
func keyOf(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("write selectors: " + err.Error()) // they are all plain values
	}
	return string(text)
}
