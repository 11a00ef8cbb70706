// Package find finds what a node class refers to in the account: subnets, security groups, images, the instance profile,
// capacity reservations, the placement group. It reads, and makes instance profiles; what a class lacks if something is not
// there is said by package aws.
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

// How long answers are believed.
const (
	shortAge         = time.Minute // groups, reservations
	profileAge       = 15 * time.Minute
	missingRoleAge   = time.Minute
	protectedAge     = time.Hour
	parameterAge     = 24 * time.Hour   // aliases
	ownParameterAge  = 5 * time.Minute  // parameters that users write themselves
	placementDataAge = 24 * time.Hour   // of a placement group while EC2 does not answer
	blockEndsBefore  = 40 * time.Minute // a capacity block is expiring so long before its end
)

// Config is what a Finder is made from.
type Config struct {
	Cloud   *cloud.Cloud
	Clock   clock.PassiveClock
	Cluster string
	// AMIRefresh and SubnetRefresh are how long images and subnets are believed; a minute if 0.
	AMIRefresh, SubnetRefresh time.Duration
}

// Finder finds what classes refer to. Classes that ask the same share the answer. It may be used from several goroutines.
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
	// remembered holds placement groups for the time that EC2 does not answer.
	remembered *fresh.Cache[awsv1.PlacementGroupSelector, *PlacementGroup]
	profiles   *fresh.Cache[string, *profile]
	noRole     *fresh.Cache[string, struct{}]
	protected  *fresh.Cache[string, struct{}]
}

// New makes a Finder. It calls nothing.
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

// tagFilters select what carries all of the tags; the value * stands for any.
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

// keyOf is the same text for selectors that say the same in the same order.
func keyOf(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("write selectors: " + err.Error()) // they are all plain values
	}
	return string(text)
}
