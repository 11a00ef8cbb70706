package template

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
)

type networkInterface = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

// interfaces returns the machine's network interfaces: the ones that the class lists, or one for each requested EFA, or one. They have the
// security groups.
func (b *Blueprint) interfaces() []networkInterface {
	var groups []string
	for _, g := range b.Class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	var out []networkInterface
	for _, n := range b.Class.Spec.NetworkInterfaces {
		out = append(out, networkInterface{
			NetworkCardIndex: aws.Int32(n.NetworkCardIndex), DeviceIndex: aws.Int32(n.DeviceIndex), InterfaceType: aws.String(n.InterfaceType), Groups: groups,
		})
	}
	for i := range b.EFA {
		if len(b.Class.Spec.NetworkInterfaces) > 0 {
			break
		}
		out = append(out, networkInterface{
			NetworkCardIndex: aws.Int32(int32(i)), DeviceIndex: aws.Int32(int32(min(i, 1))), InterfaceType: aws.String("efa"), Groups: groups,
		})
	}
	if len(out) == 0 {
		out = []networkInterface{{DeviceIndex: aws.Int32(0), Groups: groups}}
	}
	for i := range out {
		if aws.ToString(out[i].InterfaceType) != awsv1.InterfaceTypeEFAOnly {
			b.address(&out[i])
		}
	}
	return out
}

// address sets the fields of an interface with IP traffic.
func (b *Blueprint) address(n *networkInterface) {
	spec := &b.Class.Spec
	n.AssociatePublicIpAddress = spec.AssociatePublicIPAddress
	if c := spec.ConnectionTracking; c != nil {
		n.ConnectionTrackingSpecification = &ec2types.ConnectionTrackingSpecificationRequest{
			TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout,
		}
	}
	if !b.IPv6 {
		n.Ipv4PrefixCount = spec.IPPrefixCount
		return
	}
	n.Ipv6PrefixCount = spec.IPPrefixCount
	n.PrimaryIpv6, n.Ipv6AddressCount = aws.Bool(true), aws.Int32(1)
}
