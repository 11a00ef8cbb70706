// Package template makes launch templates: EC2's description of a machine without its type and subnet. The name of a template follows from
// its contents, so that equal machines share one, and a template that was changed or deleted by hand is made again.
package template

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
)

// NamePrefix begins the names of templates.
const NamePrefix = awsv1.Group + "/"

// Template is a launch template. It is never changed.
type Template struct {
	Name string
	Data *ec2types.RequestLaunchTemplateData
	Tags []ec2types.Tag
}

// Blueprint holds the inputs of a template.
type Blueprint struct {
	Class *awsv1.EC2NodeClass
	// Tags are the tags of the template, and of the network interfaces and spot requests of its machines.
	Tags  map[string]string
	Image string
	// UserData is the text that a machine reads.
	UserData string
	// EFA is the number of EFA interfaces that are requested as a resource. Enclave is true if enclaves are. The class may turn on both as
	// well.
	EFA     int
	Enclave bool
	Tenancy string
	// Group is the ID of the placement group, "" for none; Partition is the number of its partition, 0 for any.
	Group     string
	Partition int
	Spot      bool
	// Reservation is the capacity reservation of the machine, nil for none.
	Reservation *awsv1.CapacityReservation
	// IPv6 means that the cluster's network is IPv6.
	IPv6 bool
	// IPv6Metadata means that the region lets users choose whether the metadata service has an IPv6 address.
	IPv6Metadata bool
}

// New makes a template. It calls no service.
func New(b Blueprint) (*Template, error) {
	data := b.data()
	t := &Template{Data: data, Tags: Tags(b.Tags)}
	text, err := json.Marshal([]any{data, t.Tags, b.Class.Name})
	if err != nil {
		return nil, fmt.Errorf("name a launch template of EC2NodeClass %s: %w", b.Class.Name, err)
	}
	sum := sha256.Sum256(text)
	t.Name = NamePrefix + strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)
	return t, nil
}

// Tags converts tags to EC2's form, in order of key.
func Tags(tags map[string]string) (out []ec2types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, ec2types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

func (b *Blueprint) data() *ec2types.RequestLaunchTemplateData {
	spec := &b.Class.Spec
	data := &ec2types.RequestLaunchTemplateData{
		BlockDeviceMappings: devices(b.Class),
		IamInstanceProfile:  &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(b.Class.Status.InstanceProfile)},
		Monitoring:          &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(spec.DetailedMonitoring != nil && *spec.DetailedMonitoring)},
		ImageId:             aws.String(b.Image),
		MetadataOptions:     b.metadata(),
		NetworkInterfaces:   b.interfaces(),
		TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
			{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: Tags(b.Tags)},
		},
		Placement:      b.placement(),
		EnclaveOptions: &ec2types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(b.Enclave || spec.Enclaves())},
	}
	if b.UserData != "" {
		data.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(b.UserData)))
	}
	if b.Spot {
		data.TagSpecifications = append(data.TagSpecifications,
			ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: ec2types.ResourceTypeSpotInstancesRequest, Tags: Tags(b.Tags)})
	}
	if cpu := spec.CPUOptions; cpu != nil && cpu.NestedVirtualization != nil {
		data.CpuOptions = &ec2types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: ec2types.NestedVirtualizationSpecification(*cpu.NestedVirtualization)}
	}
	b.reserve(data)
	return data
}

// reserve sets the reserved capacity that the machine uses. A machine without a reservation uses none, not even an open one, because it would
// take capacity that is reserved for others.
func (b *Blueprint) reserve(data *ec2types.RequestLaunchTemplateData) {
	data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone,
	}
	if b.Reservation == nil {
		return
	}
	data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String(b.Reservation.ID)},
	}
	switch {
	case b.Reservation.ReservationType == awsv1.ReservationBlock:
		data.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock}
	case b.Reservation.Interruptible:
		data.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeInterruptibleCapacityReservation}
	}
}

func (b *Blueprint) placement() *ec2types.LaunchTemplatePlacementRequest {
	p := &ec2types.LaunchTemplatePlacementRequest{Tenancy: ec2types.Tenancy(b.Tenancy)}
	if b.Group != "" {
		p.GroupId = aws.String(b.Group)
		if b.Partition > 0 {
			p.PartitionNumber = aws.Int32(int32(b.Partition))
		}
	}
	return p
}

// metadata returns the options of the metadata service. Fields that are unset, because the object is older than the API server's defaults,
// get the same defaults here.
func (b *Blueprint) metadata() *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	o := b.Class.Spec.MetadataOptions
	if o == nil {
		o = &awsv1.MetadataOptions{}
	}
	text := func(p *string, otherwise string) string {
		if p == nil {
			return otherwise
		}
		return *p
	}
	out := &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            ec2types.LaunchTemplateInstanceMetadataEndpointState(text(o.HTTPEndpoint, "enabled")),
		HttpTokens:              ec2types.LaunchTemplateHttpTokensState(text(o.HTTPTokens, "required")),
		HttpPutResponseHopLimit: aws.Int32(1),
		InstanceMetadataTags:    ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if o.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = aws.Int32(int32(*o.HTTPPutResponseHopLimit))
	}
	if b.IPv6Metadata {
		out.HttpProtocolIpv6 = ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(text(o.HTTPProtocolIPv6, "disabled"))
	}
	return out
}
