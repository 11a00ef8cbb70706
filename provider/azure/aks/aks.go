// Package aks finds the objects that AKS has made around its nodes, in the cluster's node resource group: the backend pools and the security
// group for the nodes' network interfaces, the GUID of their network, and the address of the cluster's DNS. It does not call AKS's own API.
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
	// keptFor is the time for which AKS's objects are cached, because AKS seldom changes them.
	keptFor = 2 * time.Hour
	// dnsFor is the time for which the address of the cluster's DNS is cached.
	dnsFor = 15 * time.Minute
)

var (
	networkName       = regexp.MustCompile(`(?i)^aks-vnet-([0-9]{8})$`)
	securityGroupName = regexp.MustCompile(`(?i)^aks-agentpool-([0-9]{8})-nsg$`)
)

// Config holds the settings of a Cluster. All but the last two are required.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// Reader reads Service kube-system/kube-dns.
	Reader client.Reader
	// NodeResourceGroup is the resource group in which AKS keeps its nodes, MC_….
	NodeResourceGroup string
	// NetworkGUID and DNSServiceIP are the installation's settings; an empty one is looked up.
	NetworkGUID, DNSServiceIP string
}

// Cluster finds AKS's objects around the nodes of a cluster. It may be used from several goroutines.
type Cluster struct {
	config Config

	pools    *fresh.Cache[string, pools]
	groups   *fresh.Cache[string, securityGroup]
	networks *fresh.Cache[string, string] // GUIDs by the ID of a network's subnet, in lower case
	dns      *fresh.Cache[string, string]

	mu     sync.Mutex // guards listed, and lets pools be forgotten only once for each list
	listed int        // the number of lists of pools
}

// New makes a Cluster. It calls no service.
func New(config Config) *Cluster {
	return &Cluster{
		config: config, pools: fresh.New[string, pools](config.Clock, keptFor), groups: fresh.New[string, securityGroup](config.Clock, keptFor),
		networks: fresh.New[string, string](config.Clock, keptFor), dns: fresh.New[string, string](config.Clock, dnsFor),
	}
}

// Owns reports whether AKS has made a subnet itself, with its virtual network. Such a subnet already has its security group.
func (c *Cluster) Owns(subnet string) bool { return c.numberOf(subnet) != "" }

// numberOf returns the number in the name of AKS's own network, "" if a subnet is in another network.
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

// Number returns the number of eight digits in the names of AKS's objects, "aks-agentpool-12345678-routetable" for example.
func (c *Cluster) Number(ctx context.Context, subnet string) (string, error) {
	if number := c.numberOf(subnet); number != "" {
		return number, nil
	}
	group, err := c.securityGroup(ctx)
	return group.number, err
}

// SecurityGroup returns the ID of the network security group that network interfaces in a subnet need, "" if the subnet has its own.
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

// NetworkGUID returns Azure's GUID of the virtual network of a subnet.
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

// pools holds the IDs of backend pools from the list with number generation.
type pools struct {
	ids        []string
	generation int
}

// Pools returns the sorted IDs of the backend pools for the nodes' network interfaces. It returns none if the cluster has no load balancer.
// `generation` identifies the list from which the IDs come, for Stale.
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

// Stale records that Azure did not know a pool of this generation. The next call of Pools lists the pools again, unless that has happened
// since. So many launches that fail for the same pool cause one list.
func (c *Cluster) Stale(generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, is := c.pools.Peek(""); is && known.generation == generation {
		c.pools.Forget("")
	}
}

// poolsOf returns the pools to which AKS adds nodes by their network interfaces. It leaves out pools of IPv6, and pools with addresses,
// because these accept no such network interfaces.
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
