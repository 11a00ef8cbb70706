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

// Calls that a rehearsal tries, as policies call them.
const (
	CallCreateLaunchTemplate = "ec2:CreateLaunchTemplate"
	CallCreateFleet          = "ec2:CreateFleet"
	CallRunInstances         = "ec2:RunInstances"
)

// RehearsalError means that a machine of an order could not be started.
type RehearsalError struct {
	// Call is the one of the calls above that failed.
	Call string
	Err  error
}

func (e *RehearsalError) Error() string { return e.Err.Error() }
func (e *RehearsalError) Unwrap() error { return e.Err }

// NoProfile reports whether EC2 does not know the instance profile. One that was made a moment ago it will know soon.
func (e *RehearsalError) NoProfile() bool {
	return cloud.Code(e.Err) == "InvalidParameterValue" && strings.Contains(e.Err.Error(), "Invalid IAM Instance Profile name")
}

// Rehearse makes the launch template of the order's first offer, and has EC2 say whether it would start a fleet from it in
// any subnet of the order, and a machine in one of them: the first of each zone is tried, until one will do. Nothing is
// started. The error is a *RehearsalError.
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
		if cloud.Throttled(err) { // the next would not be answered either
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

// once has a call tried once: somebody waits for the answer, and it is tried again soon enough.
func once(o *ec2.Options) { o.Retryer = aws.NopRetryer{} }

// allowed reports whether all that a call lacks is capacity, which is another matter.
func allowed(err error) bool {
	return cloud.DryRunSucceeded(err) || noCapacity(cloud.Code(err))
}

// lost forgets a template that somebody has deleted.
func (f *Fleet) lost(t *template.Template, err error) {
	if missing(err) {
		f.Templates.Forget(t.Name)
	}
}

// fleetRehearsal asks for what a launch asks for, but in all subnets, and leaves the zone and the image to what follows
// from them.
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
