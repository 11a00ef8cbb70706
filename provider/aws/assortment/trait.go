package assortment

import (
	"maps"
	"slices"
	"strings"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/images"
)

// Reasons of the condition Drifted.
const (
	AMIDrift           = "AMIDrift"
	SecurityGroupDrift = "SecurityGroupDrift"
	SubnetDrift        = "SubnetDrift"
)

// SecurityGroups writes the security groups of a machine as the annotation SecurityGroupsAnnotationKey has them.
func SecurityGroups(ids []string) string { return strings.Join(slices.Sorted(slices.Values(ids)), ",") }

// Traits are what the class's status says its machines should be, in the order in which drift is looked for. Of the types that
// were started they say which image they would be started from now; of one that no image is for they say nothing: that may be
// an image that is late.
func Traits(c *awsv1.EC2NodeClass, types []engine.InstanceType, started map[string]bool) (out []engine.Trait) {
	byImage := map[string][]string{} // types in order of name
	for i := range types {
		if !started[types[i].Name] {
			continue
		}
		if image := images.For(c.Status.AMIs, &types[i]); image != nil {
			byImage[image.ID] = append(byImage[image.ID], types[i].Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byImage)) {
		out = append(out, engine.Trait{Key: engine.ImageTrait, Accepts: []string{id}, Types: byImage[id], Reason: AMIDrift})
	}
	var groups, subnets []string
	for _, g := range c.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	for _, s := range c.Status.Subnets {
		subnets = append(subnets, s.ID)
	}
	if len(groups) > 0 {
		out = append(out, engine.Trait{Key: awsv1.SecurityGroupsAnnotationKey, Accepts: []string{SecurityGroups(groups)}, Reason: SecurityGroupDrift})
	}
	if len(subnets) > 0 {
		out = append(out, engine.Trait{Key: awsv1.SubnetAnnotationKey, Accepts: slices.Compact(slices.Sorted(slices.Values(subnets))), Reason: SubnetDrift})
	}
	return out
}
