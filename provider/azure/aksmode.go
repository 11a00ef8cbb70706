package azure

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/bootstrap"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/offer"
)

// billingTag marks a machine as one of AKS's with Linux.
const billingTag, billingValue = "compute.aks.billing", "linux"

// completeForAKS adds AKS's network objects to an order, and the custom data with which the image starts its kubelet.
func (p *Provider) completeForAKS(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, o offer.Offer, order *machine.Order) error {
	failed := func(err error) error { return p.failed(claim, "network of the machine", err) }
	order.Tags[billingTag] = billingValue
	pools, _, err := p.aks.Pools(ctx)
	if err != nil {
		return failed(err)
	}
	order.Network.BackendPools = append(pools, order.Network.BackendPools...)
	number := ""
	if order.Network.SecurityGroup == "" {
		if order.Network.SecurityGroup, err = p.aks.SecurityGroup(ctx, order.Network.Subnet); err != nil {
			return failed(err)
		}
		if number, err = p.aks.Number(ctx, order.Network.Subnet); err != nil {
			return failed(err)
		}
	}
	guid := ""
	if p.config.NetworkPluginMode == size.ModeOverlay {
		if guid, err = p.aks.NetworkGUID(ctx, order.Network.Subnet); err != nil {
			return failed(err)
		}
	}
	dns, err := p.aks.DNSServiceIP(ctx)
	if err != nil {
		return failed(err)
	}
	figures, _ := p.market.Size(o.InstanceType)
	settings, version := p.settings(c), ptr.Deref(c.Status.KubernetesVersion, "")
	_, nvidia := o.Type.Capacity["nvidia.com/gpu"]
	order.CustomData, err = bootstrap.Script(bootstrap.Input{
		Spec: &c.Spec, KubernetesVersion: version, Endpoint: p.config.ClusterEndpoint, CABundle: p.config.ClusterCABundle, BootstrapToken: p.config.BootstrapToken,
		Tenant: p.config.Tenant, Subscription: p.cloud.Subscription, Location: p.cloud.Location, Cloud: p.config.CloudName,
		NodeResourceGroup: p.config.ResourceGroup, Cluster: size.ClusterLabel(p.config.ResourceGroup), SubnetID: order.Network.Subnet, Number: number, NetworkGUID: guid,
		NetworkPlugin: p.config.NetworkPlugin, NetworkMode: p.config.NetworkPluginMode, NetworkDataplane: p.config.NetworkDataplane, NetworkPolicy: p.config.NetworkPolicy,
		DNSServiceIP: dns, KubeletIdentity: p.config.KubeletIdentity, AdminUsername: p.config.AdminUsername, Size: o.InstanceType, NVIDIA: nvidia,
		Architecture: o.Labels[corev1.LabelArchStable], Family: image.Effective(c, version), MaxPods: int(o.Type.Capacity.Pods().Value()),
		KubeReserved: figures.KubeReserved(&settings), Labels: labelsOf(claim, o), Taints: taintsOf(claim),
	})
	if err != nil {
		return launchError(claim, "UserDataResolutionFailed", fmt.Errorf("AKSNodeClass %s: %w", c.Name, err))
	}
	return nil
}

// putNIC makes a machine's network interface. If a backend pool does not exist any more, it lists the pools once more, because AKS makes new
// ones when a cluster's outbound type changes.
func (p *Provider) putNIC(ctx context.Context, c *azurev1beta1.AKSNodeClass, order *machine.Order) error {
	err := p.cloud.PutNIC(ctx, p.config.ResourceGroup, order.Name, order.NIC())
	if p.aks == nil || !cloud.Says(err, "InvalidResourceReference", "/backendAddressPools/") {
		return err
	}
	pools, generation, listed := p.aks.Pools(ctx)
	if own := c.Spec.LoadBalancerBackendPoolIDs; listed == nil && slices.Equal(append(pools, own...), order.Network.BackendPools) { // no other launch has listed them since
		p.aks.Stale(generation)
		pools, _, listed = p.aks.Pools(ctx)
	}
	if listed != nil {
		return err
	}
	order.Network.BackendPools = append(pools, c.Spec.LoadBalancerBackendPoolIDs...)
	return p.cloud.PutNIC(ctx, p.config.ResourceGroup, order.Name, order.NIC())
}
