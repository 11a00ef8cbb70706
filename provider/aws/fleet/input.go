package fleet

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/template"
)

// input returns the parameters of the call to EC2.
func input(order *Order, offers []Offer, subnets map[string]awsv1.Subnet, n int, clientToken, token string) *ec2.CreateFleetInput {
	tags := template.Tags(order.Tags)
	tags = append(tags, ec2types.Tag{Key: aws.String(v1.LaunchTokenAnnotationKey), Value: aws.String(token)})
	in := &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, ClientToken: aws.String(clientToken),
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(int32(n))},
		LaunchTemplateConfigs:       configs(order, offers, subnets),
	}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeFleet} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: kind, Tags: tags})
	}
	if order.Context != "" {
		in.Context = aws.String(order.Context)
	}
	target := in.TargetCapacitySpecification
	switch {
	case order.CapacityType == v1.CapacityTypeSpot:
		target.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
		if order.Prioritized {
			in.SpotOptions.AllocationStrategy = ec2types.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
	case order.Block:
		target.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeCapacityBlock
	case order.Interruptible:
		target.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeReservedCapacity
		in.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{ec2types.FleetReservationTypeInterruptibleCapacityReservation},
		}
	default:
		target.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeOnDemand
		in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
		if order.Prioritized {
			in.OnDemandOptions.AllocationStrategy = ec2types.FleetOnDemandAllocationStrategyPrioritized
		}
	}
	return in
}

// configs lists the offers by template, in their order.
func configs(order *Order, offers []Offer, subnets map[string]awsv1.Subnet) (out []ec2types.FleetLaunchTemplateConfigRequest) {
	index := map[int]int{}
	for _, o := range offers {
		i, found := index[o.Template]
		if !found {
			i = len(out)
			index[o.Template] = i
			out = append(out, ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: aws.String(order.Templates[o.Template].Name), Version: aws.String("$Latest"),
			}})
		}
		out[i].Overrides = append(out[i].Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
			InstanceType: ec2types.InstanceType(o.InstanceType), SubnetId: aws.String(subnets[o.Zone].ID), AvailabilityZone: aws.String(o.Zone),
			ImageId: aws.String(o.Image), Priority: aws.Float64(o.Price),
		})
	}
	return out
}
