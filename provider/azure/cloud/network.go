package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"tenon.sh/provider/azure/network"
)

const (
	kindInterfaces     = "Microsoft.Network/networkInterfaces"
	kindSubnets        = "Microsoft.Network/virtualNetworks/subnets"
	kindBalancers      = "Microsoft.Network/loadBalancers"
	kindSecurityGroups = "Microsoft.Network/networkSecurityGroups"
)

// PutNIC makes or changes a network interface.
func (c *Cloud) PutNIC(ctx context.Context, group, name string, nic network.Interface) error {
	return c.change(ctx, "NetworkInterfaces_CreateOrUpdate", http.MethodPut, c.inGroup(group, kindInterfaces, name), name, nic)
}

// NICTags returns the tags of a network interface.
func (c *Cloud) NICTags(ctx context.Context, group, name string) (map[string]string, error) {
	nic, err := get[network.Interface](ctx, c, "NetworkInterfaces_Get", c.inGroup(group, kindInterfaces, name), name)
	return nic.Tags, err
}

// NICs returns all network interfaces of a group.
func (c *Cloud) NICs(ctx context.Context, group string) ([]network.Interface, error) {
	return list[network.Interface](ctx, c, "NetworkInterfaces_List", c.inGroup(group, kindInterfaces, ""), group)
}

// TagNIC replaces all tags of a network interface.
func (c *Cloud) TagNIC(ctx context.Context, group, name string, tags map[string]*string) error {
	_, err := c.call(ctx, http.MethodPatch, c.inGroup(group, kindInterfaces, name), map[string]any{"tags": tags}, http.StatusOK)
	return decode("NetworkInterfaces_UpdateTags", name, false, err)
}

// DeleteNIC deletes a network interface. It returns no error if there is none.
func (c *Cloud) DeleteNIC(ctx context.Context, group, name string) error {
	return c.change(ctx, "NetworkInterfaces_Delete", http.MethodDelete, c.inGroup(group, kindInterfaces, name), name, nil)
}

// Subnet returns a subnet by its ID, in any subscription, with the configurations that have addresses in it.
func (c *Cloud) Subnet(ctx context.Context, id string) (*network.Subnet, error) {
	parsed, err := parse(id, kindSubnets, "subnet")
	if err != nil {
		return nil, err
	}
	subnet, err := get[network.Subnet](ctx, c, "Subnets_Get", id, parsed.Name)
	return &subnet, err
}

// LoadBalancer returns a load balancer by its ID, in any subscription.
func (c *Cloud) LoadBalancer(ctx context.Context, id string) (*network.LoadBalancer, error) {
	parsed, err := parse(id, kindBalancers, "load balancer")
	if err != nil {
		return nil, err
	}
	balancer, err := get[network.LoadBalancer](ctx, c, "LoadBalancers_Get", id, parsed.Name)
	return &balancer, err
}

// SecurityGroup returns a network security group by its ID, in any subscription.
func (c *Cloud) SecurityGroup(ctx context.Context, id string) (*network.SecurityGroup, error) {
	parsed, err := parse(id, kindSecurityGroups, "network security group")
	if err != nil {
		return nil, err
	}
	group, err := get[network.SecurityGroup](ctx, c, "NetworkSecurityGroups_Get", id, parsed.Name)
	return &group, err
}

// NetworkOf returns the virtual network of a subnet, by the subnet's ID, in any subscription.
func (c *Cloud) NetworkOf(ctx context.Context, subnet string) (*network.VirtualNetwork, error) {
	parsed, err := parse(subnet, kindSubnets, "the virtual network of subnet")
	if err != nil {
		return nil, err
	}
	found, err := get[network.VirtualNetwork](ctx, c, "VirtualNetworks_Get", parsed.Parent.String(), parsed.Parent.Name)
	return &found, err
}

// LoadBalancers returns the load balancers of a group.
func (c *Cloud) LoadBalancers(ctx context.Context, group string) ([]network.LoadBalancer, error) {
	return list[network.LoadBalancer](ctx, c, "LoadBalancers_List", c.inGroup(group, kindBalancers, ""), group)
}

// SecurityGroups returns the network security groups of a group.
func (c *Cloud) SecurityGroups(ctx context.Context, group string) ([]network.SecurityGroup, error) {
	return list[network.SecurityGroup](ctx, c, "NetworkSecurityGroups_List", c.inGroup(group, kindSecurityGroups, ""), group)
}

// parse parses the ID of a resource of a kind. The error calls the resource `what`.
func parse(id, kind, what string) (*arm.ResourceID, error) {
	parsed, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(parsed.ResourceType.String(), kind) {
		return nil, fmt.Errorf("read %s: %q is not the ID of one", what, id)
	}
	return parsed, nil
}

// inGroup returns the ID of a resource in a group of the subscription; for the name "", the path of all resources of the kind.
func (c *Cloud) inGroup(group, kind, name string) string {
	id := "/subscriptions/" + c.Subscription + "/resourceGroups/" + group + "/providers/" + kind
	if name == "" {
		return id
	}
	return id + "/" + name
}

// get reads one resource by its ID.
func get[T any](ctx context.Context, c *Cloud, call, id, about string) (out T, err error) {
	answer, err := c.call(ctx, http.MethodGet, id, nil, http.StatusOK)
	if err == nil {
		err = runtime.UnmarshalAsJSON(answer, &out)
	}
	return out, decode(call, about, false, err)
}

// list reads all pages of a list of resources.
func list[T any](ctx context.Context, c *Cloud, call, id, about string) (out []T, err error) {
	type page struct {
		Value    []T    `json:"value"`
		NextLink string `json:"nextLink"`
	}
	pages := runtime.NewPager(runtime.PagingHandler[page]{
		More: func(p page) bool { return p.NextLink != "" },
		Fetcher: func(ctx context.Context, last *page) (p page, err error) {
			next := ""
			if last != nil {
				next = last.NextLink
			}
			answer, err := runtime.FetcherForNextLink(ctx, c.network.Pipeline(), next, func(ctx context.Context) (*policy.Request, error) {
				return c.request(ctx, http.MethodGet, id, nil)
			}, nil)
			if err != nil {
				return p, err
			}
			return p, runtime.UnmarshalAsJSON(answer, &p)
		},
	})
	for pages.More() {
		p, err := pages.NextPage(ctx)
		if err != nil {
			return nil, decode(call, about, false, err)
		}
		out = append(out, p.Value...)
	}
	return out, nil
}

// change makes, changes or deletes a resource, and waits until that is done.
func (c *Cloud) change(ctx context.Context, call, method, id, about string, body any) error {
	return done(ctx, c, call, about, func(ctx context.Context) (*runtime.Poller[struct{}], error) {
		answer, err := c.call(ctx, method, id, body, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent)
		if err != nil {
			return nil, err
		}
		return runtime.NewPoller[struct{}](answer, c.network.Pipeline(), nil)
	})
}

// call makes a call and returns its answer. An answer with a status that is not expected is an error.
func (c *Cloud) call(ctx context.Context, method, id string, body any, expected ...int) (*http.Response, error) {
	request, err := c.request(ctx, method, id, body)
	if err != nil {
		return nil, err
	}
	answer, err := c.network.Pipeline().Do(request)
	if err != nil {
		return nil, err
	}
	if !runtime.HasStatusCode(answer, expected...) {
		return nil, runtime.NewResponseError(answer)
	}
	return answer, nil
}

// request returns a request to Microsoft.Network about the resource with an ID.
func (c *Cloud) request(ctx context.Context, method, id string, body any) (*policy.Request, error) {
	request, err := runtime.NewRequest(ctx, method, runtime.JoinPaths(c.network.Endpoint(), (&url.URL{Path: id}).EscapedPath()))
	if err != nil {
		return nil, err
	}
	query := request.Raw().URL.Query()
	query.Set("api-version", network.APIVersion)
	request.Raw().URL.RawQuery = query.Encode()
	request.Raw().Header.Set("Accept", "application/json")
	if body == nil {
		return request, nil
	}
	return request, runtime.MarshalAsJSON(request, body)
}
