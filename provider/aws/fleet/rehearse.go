package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/template"
)

// The calls of a rehearsal, by their names in policies.
const (
	CallCreateLaunchTemplate = "ec2:CreateLaunchTemplate"
	CallCreateFleet          = "ec2:CreateFleet"
	CallRunInstances         = "ec2:RunInstances"
)

// RehearsalError means that a machine of an order could not be started.
type RehearsalError struct {
	// Call is the failed call, one of those above.
	Call string
	Err  error
}

func (e *RehearsalError) Error() string { return e.Err.Error() }
func (e *RehearsalError) Unwrap() error { return e.Err }

// NoProfile reports whether EC2 does not know the instance profile. EC2 learns of a new profile after a short time.
func (e *RehearsalError) NoProfile() bool {
	return cloud.Code(e.Err) == "InvalidParameterValue" && strings.Contains(e.Err.Error(), "Invalid IAM Instance Profile name")
}

// Rehearse makes the launch template of the order's first offer. It then makes dry runs: of a fleet from it in all subnets, and of a machine
// in the first subnet of each zone, until one succeeds. It starts no machine. The error is a *RehearsalError.
func (f *Fleet) Rehearse(ctx context.Context, order *Order) error {
	t := order.Templates[order.Offers[0].Template]
	if err := f.Templates.Ensure(ctx, []*template.Template{t}); err != nil {
		return &RehearsalError{CallCreateLaunchTemplate, err}
	}
	_, err := f.Cloud.EC2.CreateFleet(ctx, fleetRehearsal(order, t), once)
	if err != nil && !allowed(err) {
		f.lost(t, err)
		return &RehearsalError{CallCreateFleet, fmt.Errorf("try to create a fleet: %w", err)}
	}
	var first error
	for _, s := range firstOfZones(order.Subnets) {
		_, err := f.Cloud.EC2.RunInstances(ctx, machineRehearsal(order, t, s.ID), once)
		if err == nil || allowed(err) {
			return nil
		}
		f.lost(t, err)
		if first == nil {
			first = &RehearsalError{CallRunInstances, fmt.Errorf("try to start a machine in subnet %s: %w", s.ID, err)}
		}
		if cloud.Throttled(err) { // the next call would be throttled too
			break
		}
	}
	return first
}

func firstOfZones(subnets []awsv1.Subnet) (out []awsv1.Subnet) {
	for _, s := range subnets {
		if !slices.ContainsFunc(out, func(have awsv1.Subnet) bool { return have.Zone == s.Zone }) {
			out = append(out, s)
		}
	}
	return out
}

// once makes the SDK try a call only once, because a caller waits for the answer and tries again soon.
func once(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

// allowed reports whether a dry run succeeded, or would have failed only for lack of capacity.
func allowed(err error) bool {
	return cloud.DryRunSucceeded(err) || noCapacity(cloud.Code(err))
}

// lost forgets a template that another program has deleted.
func (f *Fleet) lost(t *template.Template, err error) {
	if missing(err) {
		f.Templates.Forget(t.Name)
	}
}

// fleetRehearsal returns a request like that of a launch, but in all subnets, and without zones and images.
func fleetRehearsal(order *Order, t *template.Template) *ec2.CreateFleetInput {
	in := input(order, nil, nil, 1, "", "")
	in.DryRun, in.ClientToken = aws.Bool(true), nil
	config := ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateName: aws.String(t.Name), Version: aws.String("$Latest"),
	}}
	for _, s := range order.Subnets {
		config.Overrides = append(config.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
			InstanceType: ec2types.InstanceType(order.Offers[0].InstanceType), SubnetId: aws.String(s.ID),
		})
	}
	in.LaunchTemplateConfigs = []ec2types.FleetLaunchTemplateConfigRequest{config}
	return in
}

func machineRehearsal(order *Order, t *template.Template, subnet string) *ec2.RunInstancesInput {
	in := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: ec2types.InstanceType(order.Offers[0].InstanceType),
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(t.Name), Version: aws.String("$Latest")},
	}
	for _, n := range t.Data.NetworkInterfaces {
		in.NetworkInterfaces = append(in.NetworkInterfaces, ec2types.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: n.NetworkCardIndex, DeviceIndex: n.DeviceIndex, InterfaceType: n.InterfaceType, Groups: n.Groups, SubnetId: aws.String(subnet),
		})
	}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: kind, Tags: template.Tags(order.Tags)})
	}
	return in
}
