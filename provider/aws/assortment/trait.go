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

// SecurityGroups returns the security groups of a machine in the form of the annotation SecurityGroupsAnnotationKey.
func SecurityGroups(ids []string) string { return strings.Join(slices.Sorted(slices.Values(ids)), ",") }

// Traits returns the properties that machines should have by the class's status, in the order in which drift is looked for. For each type in
// started, they include the image from which a machine would be started now. A type without an image has no such trait, because its image may
// only be late.
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
