package cloud

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
)

// PutNIC makes a network interface, or changes one.
func (c *Cloud) PutNIC(ctx context.Context, group, name string, nic armnetwork.Interface) error {
	return done(ctx, c, "NetworkInterfaces_CreateOrUpdate", name, func(ctx context.Context) (*runtime.Poller[armnetwork.InterfacesClientCreateOrUpdateResponse], error) {
		return c.interfaces.BeginCreateOrUpdate(ctx, group, name, nic, nil)
	})
}

// NICTags are the tags of a network interface.
func (c *Cloud) NICTags(ctx context.Context, group, name string) (map[string]string, error) {
	answer, err := c.interfaces.Get(ctx, group, name, nil)
	if err != nil {
		return nil, decode("NetworkInterfaces_Get", name, false, err)
	}
	tags := map[string]string{}
	for key, value := range answer.Tags {
		if value != nil {
			tags[key] = *value
		}
	}
	return tags, nil
}

// NICs are the network interfaces of a group, whoever made them.
func (c *Cloud) NICs(ctx context.Context, group string) ([]*armnetwork.Interface, error) {
	return all(ctx, "NetworkInterfaces_List", group, c.interfaces.NewListPager(group, nil), func(page armnetwork.InterfacesClientListResponse) []*armnetwork.Interface { return page.Value })
}

// TagNIC replaces the tags of a network interface, all of them.
func (c *Cloud) TagNIC(ctx context.Context, group, name string, tags map[string]*string) error {
	_, err := c.interfaces.UpdateTags(ctx, group, name, armnetwork.TagsObject{Tags: tags}, nil)
	return decode("NetworkInterfaces_UpdateTags", name, false, err)
}

// DeleteNIC deletes a network interface. That there is none is no error.
func (c *Cloud) DeleteNIC(ctx context.Context, group, name string) error {
	return done(ctx, c, "NetworkInterfaces_Delete", name, func(ctx context.Context) (*runtime.Poller[armnetwork.InterfacesClientDeleteResponse], error) {
		return c.interfaces.BeginDelete(ctx, group, name, nil)
	})
}

// Subnet is a subnet by its ID, in whichever subscription, with what has addresses in it.
func (c *Cloud) Subnet(ctx context.Context, id string) (*armnetwork.Subnet, error) {
	parsed, err := arm.ParseResourceID(id)
	if err != nil || parsed.Parent == nil || !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Network/virtualNetworks/subnets") {
		return nil, fmt.Errorf("read subnet: %q is not the ID of one", id)
	}
	client, err := armnetwork.NewSubnetsClient(parsed.SubscriptionID, c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, fmt.Errorf("read subnet %s: %w", id, err)
	}
	answer, err := client.Get(ctx, parsed.ResourceGroupName, parsed.Parent.Name, parsed.Name, nil)
	if err != nil {
		return nil, decode("Subnets_Get", parsed.Name, false, err)
	}
	return &answer.Subnet, nil
}

// Addresses are how many addresses of a subnet's IPv4 ranges are for others than Azure, which keeps five of each range, and how many of
// them are in use. None at all means that it has no such range.
func Addresses(subnet *armnetwork.Subnet) (all, used int) {
	s := subnet.Properties
	if s == nil {
		return 0, 0
	}
	for _, text := range append(slices.Clip(s.AddressPrefixes), s.AddressPrefix) {
		if text == nil {
			continue
		}
		if prefix, err := netip.ParsePrefix(*text); err == nil && prefix.Addr().Is4() {
			all += max(0, 1<<(32-prefix.Bits())-5)
		}
	}
	return all, len(s.IPConfigurations)
}

// LoadBalancer is a load balancer by its ID, in whichever subscription.
func (c *Cloud) LoadBalancer(ctx context.Context, id string) (*armnetwork.LoadBalancer, error) {
	parsed, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Network/loadBalancers") {
		return nil, fmt.Errorf("read load balancer: %q is not the ID of one", id)
	}
	client, err := armnetwork.NewLoadBalancersClient(parsed.SubscriptionID, c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, fmt.Errorf("read load balancer %s: %w", id, err)
	}
	answer, err := client.Get(ctx, parsed.ResourceGroupName, parsed.Name, nil)
	return &answer.LoadBalancer, decode("LoadBalancers_Get", parsed.Name, false, err)
}

// SecurityGroup is a network security group by its ID, in whichever subscription.
func (c *Cloud) SecurityGroup(ctx context.Context, id string) (*armnetwork.SecurityGroup, error) {
	parsed, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Network/networkSecurityGroups") {
		return nil, fmt.Errorf("read network security group: %q is not the ID of one", id)
	}
	client, err := armnetwork.NewSecurityGroupsClient(parsed.SubscriptionID, c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, fmt.Errorf("read network security group %s: %w", id, err)
	}
	answer, err := client.Get(ctx, parsed.ResourceGroupName, parsed.Name, nil)
	return &answer.SecurityGroup, decode("NetworkSecurityGroups_Get", parsed.Name, false, err)
}

// NetworkOf is the virtual network that a subnet is in, by the subnet's ID, in whichever subscription.
func (c *Cloud) NetworkOf(ctx context.Context, subnet string) (*armnetwork.VirtualNetwork, error) {
	parsed, err := arm.ParseResourceID(subnet)
	if err != nil || parsed.Parent == nil || !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Network/virtualNetworks/subnets") {
		return nil, fmt.Errorf("read the virtual network of a subnet: %q is not the ID of one", subnet)
	}
	client, err := armnetwork.NewVirtualNetworksClient(parsed.SubscriptionID, c.config.Credential, &c.config.Options)
	if err != nil {
		return nil, fmt.Errorf("read the virtual network of subnet %s: %w", subnet, err)
	}
	answer, err := client.Get(ctx, parsed.ResourceGroupName, parsed.Parent.Name, nil)
	if err != nil {
		return nil, decode("VirtualNetworks_Get", parsed.Parent.Name, false, err)
	}
	return &answer.VirtualNetwork, nil
}

// LoadBalancers are those of a group.
func (c *Cloud) LoadBalancers(ctx context.Context, group string) ([]*armnetwork.LoadBalancer, error) {
	return all(ctx, "LoadBalancers_List", group, c.balancers.NewListPager(group, nil), func(page armnetwork.LoadBalancersClientListResponse) []*armnetwork.LoadBalancer { return page.Value })
}

// SecurityGroups are the network security groups of a group.
func (c *Cloud) SecurityGroups(ctx context.Context, group string) ([]*armnetwork.SecurityGroup, error) {
	return all(ctx, "NetworkSecurityGroups_List", group, c.security.NewListPager(group, nil), func(page armnetwork.SecurityGroupsClientListResponse) []*armnetwork.SecurityGroup { return page.Value })
}
