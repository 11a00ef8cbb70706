// Package examine finds problems of a subscription of Azure that keep the autoscaler from working: missing credentials and rights, quotas
// that are nearly full, and missing subnets, images and other resources that classes name. It only reads.
package examine

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/network"
)

// Config holds the settings of an Examiner, from the settings of package azure.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// Cluster is the cluster's name, in the tags of its machines.
	Cluster string
	// ResourceGroup is the resource group of machines. SubnetID is the subnet of machines whose class names none.
	ResourceGroup, SubnetID string
	// DiskEncryptionSetID and NodeIdentities are settings of all machines; they may be empty.
	DiskEncryptionSetID string
	NodeIdentities      []string
	// SelfManaged means that the cluster is not AKS: classes name the images of machines.
	SelfManaged bool
	// UseSIG and SIGSubscription select the galleries of AKS's images.
	UseSIG          bool
	SIGSubscription string
	// ClusterGroup is the resource group of the AKS cluster, "" if it is not known. AKSMachines are the IDs, from claims, of machines that
	// AKS itself has made.
	ClusterGroup string
	AKSMachines  []string
}

// Examiner examines one subscription.
type Examiner struct {
	Config
	images *image.Finder
}

var _ provider.Examiner = &Examiner{}

// New makes an Examiner. It calls no service.
func New(cfg Config) *Examiner {
	return &Examiner{Config: cfg, images: image.New(image.Config{Cloud: cfg.Cloud, Clock: cfg.Clock, UseSIG: cfg.UseSIG, SIGSubscription: cfg.SIGSubscription})}
}

// Examine checks the caller's identity, the location, the resource group, the quotas, and the resources that classes name.
func (x *Examiner) Examine(ctx context.Context, classes []provider.Class) []provider.Finding {
	who, err := x.Cloud.Asker(ctx)
	out := judgeAsker(who, err)
	if err != nil {
		return out // all other calls would fail too
	}
	sizes, err := x.Cloud.Sizes(ctx)
	out = append(out, x.judgeSizes(len(sizes), err)...)
	if cloud.Unknown(err) {
		return out
	}
	machines, found := x.group(ctx)
	out = append(append(out, found...), x.madeByAKS(ctx, machines)...)
	usages, err := x.Cloud.Usages(ctx)
	out = append(out, x.judgeQuotas(usages, familiesOf(machines, sizes), err)...)
	out = append(out, x.shared(ctx)...)
	for _, class := range classes {
		if c, ok := class.Object.(*azurev1beta1.AKSNodeClass); ok {
			out = append(out, x.class(ctx, c)...)
		}
	}
	return out
}

// group checks the resource group: its machines, and the caller's rights in it.
func (x *Examiner) group(ctx context.Context) ([]*armcompute.VirtualMachine, []provider.Finding) {
	object := "resource group " + x.ResourceGroup
	machines, err := x.Cloud.VMs(ctx, x.ResourceGroup)
	if cloud.NotFound(err) {
		return nil, []provider.Finding{problem(checkGroup, object, "it does not exist in subscription "+x.Cloud.Subscription, "make it, or correct AZURE_NODE_RESOURCE_GROUP")}
	}
	var out []provider.Finding
	if err != nil {
		out = append(out, failed(checkGroup, object, "its machines cannot be listed", err, x.groupID()))
	}
	if _, err := x.Cloud.NICs(ctx, x.ResourceGroup); err != nil {
		out = append(out, failed(checkGroup, object, "its network interfaces cannot be listed", err, x.groupID()))
	}
	if len(out) == 0 {
		out = append(out, ok(checkGroup, object, "%d machines are in it", len(machines)))
	}
	return machines, append(out, x.rights(ctx, object, x.groupID(), cloud.ActionsOn(cloud.InGroup, "", x.calls()...))...)
}

// calls returns the provider's calls, and the call for the extension of AKS's machines.
func (x *Examiner) calls() []string {
	if x.SelfManaged {
		return providerCalls()
	}
	return append(providerCalls(), "VirtualMachineExtensions_CreateOrUpdate")
}

func (x *Examiner) groupID() string {
	return "/subscriptions/" + x.Cloud.Subscription + "/resourceGroups/" + x.ResourceGroup
}

// providerCalls returns the calls that change something, because these cannot be tried.
func providerCalls() []string {
	return []string{"VirtualMachines_CreateOrUpdate", "VirtualMachines_Delete", "NetworkInterfaces_CreateOrUpdate", "NetworkInterfaces_Delete"}
}

// rights checks whether the caller has the rights for these actions on a resource or in a group.
func (x *Examiner) rights(ctx context.Context, object, scope string, actions []string) []provider.Finding {
	allowed, err := x.Cloud.Permissions(ctx, scope)
	if err != nil {
		f := failed(checkRights, object, "what may be done there cannot be looked at", err, scope)
		f.Level = provider.Warning
		return []provider.Finding{f}
	}
	return []provider.Finding{judgeRights(object, scope, actions, allowed)}
}

// shared checks the resources that machines of all classes use.
func (x *Examiner) shared(ctx context.Context) (out []provider.Finding) {
	if id := x.DiskEncryptionSetID; id != "" {
		object := "disk encryption set " + last(id)
		out = append(out, named(checkDisks, object, id, "NODE_OSDISK_DISKENCRYPTIONSET_ID", x.Cloud.DiskEncryptionSet(ctx, id)))
	}
	for _, id := range x.NodeIdentities {
		out = append(out, x.identity(ctx, id)...)
	}
	return out
}

// identity checks whether the caller may assign a user-assigned identity. It does not read the identity itself.
func (x *Examiner) identity(ctx context.Context, id string) []provider.Finding {
	return x.rights(ctx, "identity "+last(id), id, cloud.ActionsOn(cloud.OnWhatIsNamed, "Microsoft.ManagedIdentity/", providerCalls()...))
}

// class checks the resources that a class names.
func (x *Examiner) class(ctx context.Context, c *azurev1beta1.AKSNodeClass) []provider.Finding {
	object := "AKSNodeClass " + c.Name
	out := x.subnet(ctx, object, c)
	if id := c.Spec.NetworkSecurityGroupID; id != "" {
		_, err := x.Cloud.SecurityGroup(ctx, id)
		out = append(out, x.joined(ctx, named(checkNetwork, object+": network security group "+last(id), id, "spec.networkSecurityGroupID", err), id, "Microsoft.Network/networkSecurityGroups/")...)
	}
	out = append(out, x.pools(ctx, object, c.Spec.LoadBalancerBackendPoolIDs)...)
	for _, id := range c.Spec.ManagedIdentities {
		if !slices.ContainsFunc(x.NodeIdentities, func(known string) bool { return strings.EqualFold(known, id) }) {
			out = append(out, x.identity(ctx, id)...)
		}
	}
	return append(out, x.image(ctx, object, c)...)
}

// joined checks whether interfaces may join an object, unless the object already has a problem.
func (x *Examiner) joined(ctx context.Context, found provider.Finding, id, kind string) []provider.Finding {
	if found.Level == provider.Problem {
		return []provider.Finding{found}
	}
	return append([]provider.Finding{found}, x.rights(ctx, found.Object, id, joins(kind))...)
}

// joins returns the actions that an interface needs to join an object of a kind.
func joins(kind string) []string {
	return slices.DeleteFunc(cloud.ActionsOn(cloud.OnWhatIsNamed, kind, providerCalls()...), func(action string) bool { return !strings.HasSuffix(action, "/action") })
}

func (x *Examiner) subnet(ctx context.Context, object string, c *azurev1beta1.AKSNodeClass) []provider.Finding {
	id, setting := c.Spec.VNETSubnetID, "spec.vnetSubnetID"
	if id == "" {
		id, setting = x.SubnetID, "VNET_SUBNET_ID"
	}
	object += ": subnet " + last(id)
	subnet, err := x.Cloud.Subnet(ctx, id)
	if err != nil {
		return []provider.Finding{named(checkNetwork, object, id, setting, err)}
	}
	return x.joined(ctx, judgeSubnet(object, subnet), id, "Microsoft.Network/virtualNetworks/subnets/")
}

// pools checks the backend pools that a class names.
func (x *Examiner) pools(ctx context.Context, object string, ids []string) (out []provider.Finding) {
	const setting = "spec.loadBalancerBackendPoolIDs"
	for _, id := range ids {
		of := strings.Index(strings.ToLower(id), "/backendaddresspools/")
		about := object + ": backend pool " + last(id)
		if of < 0 {
			out = append(out, problem(checkNetwork, about, id+" is not the ID of a backend pool of a load balancer", "correct "+setting))
			continue
		}
		balancer, err := x.Cloud.LoadBalancer(ctx, id[:of])
		found := named(checkNetwork, about, id[:of], setting, err)
		if err == nil && !slices.ContainsFunc(balancer.Properties.BackendAddressPools, func(p network.BackendAddressPool) bool { return strings.EqualFold(p.Name, last(id)) }) {
			found = problem(checkNetwork, about, "load balancer "+last(id[:of])+" has no such pool", "make it, or correct "+setting)
		}
		out = append(out, x.joined(ctx, found, id[:of], "Microsoft.Network/loadBalancers/")...)
	}
	return out
}

// image checks the images of a class.
func (x *Examiner) image(ctx context.Context, object string, c *azurev1beta1.AKSNodeClass) []provider.Finding {
	if x.SelfManaged && c.Spec.ImageFamily != azurev1beta1.FamilyCustom {
		return nil // its condition has the problem
	}
	images, wrong, err := x.images.Find(ctx, c.DeepCopy(), ptr.Deref(c.Status.KubernetesVersion, ""))
	return []provider.Finding{judgeImage(object, c.Spec.ImageID, len(images), wrong, err)}
}

// last returns the last part of an ID.
func last(id string) string { return id[strings.LastIndex(id, "/")+1:] }
