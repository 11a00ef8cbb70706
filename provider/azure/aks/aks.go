// Package aks finds what AKS has made around its nodes, in the cluster's node resource group: the backend pools that they belong in,
// the security group of their network interfaces, the GUID of their network and the address of the cluster's DNS. It asks for
// nothing of AKS's own API. What a machine is made of, and what it is told, is left to the packages beside it.
package aks

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/network"
	"tenon.sh/provider/fresh"
)

const (
	// keptFor is how long what AKS has made is believed. It seldom makes anything else.
	keptFor = 2 * time.Hour
	// dnsFor is how long the address of the cluster's DNS is.
	dnsFor = 15 * time.Minute
)

var (
	networkName       = regexp.MustCompile(`(?i)^aks-vnet-([0-9]{8})$`)
	securityGroupName = regexp.MustCompile(`(?i)^aks-agentpool-([0-9]{8})-nsg$`)
)

// Config says where to look. All but the last two are required.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// Reader reads Service kube-system/kube-dns.
	Reader client.Reader
	// NodeResourceGroup is the one that AKS keeps its nodes in, MC_….
	NodeResourceGroup string
	// NetworkGUID and DNSServiceIP are what the installation was told; what it was not is looked up.
	NetworkGUID, DNSServiceIP string
}

// Cluster is what there is around the nodes of a cluster. It may be used from several goroutines.
type Cluster struct {
	config Config

	pools    *fresh.Cache[string, pools]
	groups   *fresh.Cache[string, securityGroup]
	networks *fresh.Cache[string, string] // GUIDs by the ID of a network's subnet, in lower case
	dns      *fresh.Cache[string, string]

	mu     sync.Mutex // guards listed, and that pools are forgotten once for each list
	listed int        // how often pools were
}

// New makes a Cluster. It asks for nothing yet.
func New(config Config) *Cluster {
	return &Cluster{
		config: config, pools: fresh.New[string, pools](config.Clock, keptFor), groups: fresh.New[string, securityGroup](config.Clock, keptFor),
		networks: fresh.New[string, string](config.Clock, keptFor), dns: fresh.New[string, string](config.Clock, dnsFor),
	}
}

// Owns reports whether a subnet is one that AKS has made itself, with its virtual network. It has its security group already.
func (c *Cluster) Owns(subnet string) bool { return c.numberOf(subnet) != "" }

// numberOf is the number in the name of AKS's own network, "" if a subnet is in another.
func (c *Cluster) numberOf(subnet string) string {
	id, err := arm.ParseResourceID(subnet)
	if err != nil || id.Parent == nil || !strings.EqualFold(id.Name, "aks-subnet") || !strings.EqualFold(id.ResourceGroupName, c.config.NodeResourceGroup) ||
		!strings.EqualFold(id.SubscriptionID, c.config.Cloud.Subscription) {
		return ""
	}
	if match := networkName.FindStringSubmatch(id.Parent.Name); match != nil {
		return match[1]
	}
	return ""
}

// Number is the one of eight digits that the names of what AKS has made hold, "aks-agentpool-12345678-routetable" for example.
func (c *Cluster) Number(ctx context.Context, subnet string) (string, error) {
	if number := c.numberOf(subnet); number != "" {
		return number, nil
	}
	group, err := c.securityGroup(ctx)
	return group.number, err
}

// SecurityGroup is the ID of the network security group that network interfaces in a subnet need, "" where the subnet brings it along.
func (c *Cluster) SecurityGroup(ctx context.Context, subnet string) (id string, err error) {
	if c.Owns(subnet) {
		return "", nil
	}
	group, err := c.securityGroup(ctx)
	return group.id, err
}

// securityGroup is AKS's network security group.
type securityGroup struct{ id, number string }

func (c *Cluster) securityGroup(ctx context.Context) (securityGroup, error) {
	return c.groups.Get(ctx, "", func(ctx context.Context) (securityGroup, error) {
		const what = "find the network security group of AKS, aks-agentpool-<8 digits>-nsg"
		group := c.config.NodeResourceGroup
		list, err := c.config.Cloud.SecurityGroups(ctx, group)
		if err != nil {
			return securityGroup{}, fmt.Errorf("%s: %w", what, err)
		}
		var found []securityGroup
		var names []string
		for _, g := range list {
			if match := securityGroupName.FindStringSubmatch(g.Name); match != nil {
				found, names = append(found, securityGroup{g.ID, match[1]}), append(names, g.Name)
			}
		}
		slices.Sort(names)
		const hint = "or name one in spec.networkSecurityGroupID of the AKSNodeClass"
		switch len(found) {
		case 0:
			return securityGroup{}, fmt.Errorf("%s: resource group %s has none (of %d): see that AZURE_NODE_RESOURCE_GROUP is the cluster's node resource group, %s", what, group, len(list), hint)
		case 1:
			return found[0], nil
		}
		return securityGroup{}, fmt.Errorf("%s: resource group %s has several: %s: delete those that AKS has left behind, %s", what, group, strings.Join(names, ", "), hint)
	})
}

// NetworkGUID is what Azure calls the virtual network of a subnet.
func (c *Cluster) NetworkGUID(ctx context.Context, subnet string) (string, error) {
	if c.config.NetworkGUID != "" {
		return c.config.NetworkGUID, nil
	}
	return c.networks.Get(ctx, strings.ToLower(subnet), func(ctx context.Context) (string, error) {
		found, err := c.config.Cloud.NetworkOf(ctx, subnet)
		if err != nil {
			return "", fmt.Errorf("find the GUID of the virtual network: %w (VNET_GUID tells it without asking)", err)
		}
		if found.Properties.ResourceGUID == "" {
			return "", fmt.Errorf("find the GUID of the virtual network: Azure says none for %s: set VNET_GUID", found.ID)
		}
		return found.Properties.ResourceGUID, nil
	})
}

// pools are the IDs of backend pools, as the nth list has them.
type pools struct {
	ids        []string
	generation int
}

// Pools are the IDs of the backend pools that network interfaces of nodes belong in, in order; none if the cluster has no load
// balancer. The generation says which list they come from.
func (c *Cluster) Pools(ctx context.Context) (ids []string, generation int, err error) {
	known, err := c.pools.Get(ctx, "", func(ctx context.Context) (pools, error) {
		balancers, err := c.config.Cloud.LoadBalancers(ctx, c.config.NodeResourceGroup)
		if err != nil {
			return pools{}, fmt.Errorf("find the backend pools of AKS's load balancers: %w", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.listed++
		return pools{poolsOf(balancers), c.listed}, nil
	})
	return slices.Clone(known.ids), known.generation, err
}

// Stale says that Azure did not know a pool of this generation. The next call of Pools lists them anew, unless that was done since:
// many launches that fail for the same pool cause one list.
func (c *Cluster) Stale(generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, is := c.pools.Peek(""); is && known.generation == generation {
		c.pools.Forget("")
	}
}

// poolsOf are the pools that AKS keeps nodes in by their network interfaces. Pools of IPv6 take no IPv4, and those that hold addresses
// take no network interfaces.
func poolsOf(balancers []network.LoadBalancer) (ids []string) {
	for _, b := range balancers {
		if name := strings.ToLower(b.Name); name != "kubernetes" && name != "kubernetes-internal" {
			continue
		}
		for _, pool := range b.Properties.BackendAddressPools {
			name := strings.ToLower(pool.Name)
			if pool.ID != "" && name != "aksoutboundbackendpool-ipv6" && name != "kubernetes-ipv6" && !holdsAddresses(pool) {
				ids = append(ids, pool.ID)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
	})
	return ids
}

func holdsAddresses(pool network.BackendAddressPool) bool {
	for _, a := range pool.Properties.LoadBalancerBackendAddresses {
		if a.Properties.IPAddress != "" {
			return true
		}
	}
	return false
}
