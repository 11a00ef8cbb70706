package azure

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/image"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/userdata"
	"tenon.sh/provider/offer"
)

// aksPrefix begins the names of machines of AKS.
const aksPrefix = "aks-"

// longestName is the longest name of a machine and its computer.
const longestName = 64

// nameOf returns the name of a claim's machine. A long name ends in a hash of the whole name.
func (p *Provider) nameOf(claim *v1.NodeClaim) string {
	name := claim.Name
	if !p.selfManaged() {
		name = aksPrefix + name
	}
	if len(name) <= longestName {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	end := "-" + strconv.FormatUint(h.Sum64(), 36)
	return strings.TrimRight(name[:longestName-len(end)], "-.") + end
}

func (p *Provider) nicID(name string) string {
	return "/subscriptions/" + p.cloud.Subscription + "/resourceGroups/" + p.config.ResourceGroup + "/providers/Microsoft.Network/networkInterfaces/" + name
}

// order returns the request to Azure for a claim's machine.
func (p *Provider) order(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, o offer.Offer) (*machine.Order, error) {
	figures, _ := p.market.Size(o.InstanceType)
	settings := p.settings(c)
	chosen, found := image.Choose(c.Status.Images, figures.Labels(&settings)) // the labels of the size have the Hyper-V generation, the catalog does not
	if !found {
		return nil, launchError(claim, "ImagesNotReady", fmt.Errorf("no image of AKSNodeClass %s runs on %s", c.Name, o.InstanceType))
	}
	reference, err := image.Reference(chosen.ID)
	if err != nil {
		return nil, launchError(claim, "ImagesNotReady", err)
	}
	plan, err := p.images.Plan(ctx, chosen.ID)
	if err != nil {
		return nil, p.failed(claim, "plan of the image", err)
	}
	spec := &c.Spec
	out := &machine.Order{
		Name: p.nameOf(claim), Location: p.cloud.Location, Tags: p.tagsOf(claim, c), Size: o.InstanceType, Zone: zoneNumber(o.Zone),
		Spot: o.CapacityType == v1.CapacityTypeSpot, Image: reference, Plan: plan, AdminUsername: p.config.AdminUsername, SSHPublicKey: p.config.SSHPublicKey,
		Identities: p.identitiesOf(c), OSDiskGB: ptr.Deref(spec.OSDiskSizeGB, 128), OSDiskStorage: spec.OSDiskStorageAccountType,
		DiskEncryptionSet: p.config.DiskEncryptionSetID, DataDisks: spec.DataDisks, UltraSSD: o.Labels[size.LabelUltraSSD] == "true",
		Network: machine.Network{
			Subnet: p.subnetOf(c), Accelerated: figures.AcceleratedNetworking, SecurityGroup: spec.NetworkSecurityGroupID,
			ApplicationGroups: spec.ApplicationSecurityGroupIDs, BackendPools: spec.LoadBalancerBackendPoolIDs,
		},
	}
	if out.SSHPublicKey == "" {
		out.SSHPublicKey = p.strangersKey
	}
	if spec.Security != nil {
		trusted := ptr.Deref(spec.Security.TrustedLaunch, azurev1beta1.TrustedLaunch{})
		out.EncryptionAtHost, out.VTPM, out.SecureBoot = spec.Security.EncryptionAtHost, trusted.VTPM, trusted.SecureBoot
	}
	if own, placement := figures.EphemeralDisk(); spec.OSDiskType != azurev1beta1.OSDiskManaged && spec.OSDiskStorageAccountType == "" && int64(out.OSDiskGB) <= own {
		out.Placement = placement
	}
	if p.config.NetworkPlugin == size.PluginAzure && p.config.NetworkPluginMode == "" {
		out.Network.Addresses = int(o.Type.Capacity.Pods().Value()) - 1 // pods have addresses of the machine's network
	}
	if p.selfManaged() {
		out.CustomData, err = p.customData(ctx, claim, c, o, out)
		return out, err
	}
	return out, p.completeForAKS(ctx, claim, c, o, out)
}

// labelsOf returns the labels of a claim's node.
func labelsOf(claim *v1.NodeClaim, o offer.Offer) map[string]string {
	labels := maps.Clone(o.Labels)
	maps.Copy(labels, placeLabels(o.OfferingID))
	maps.Copy(labels, claim.Labels)
	return labels
}

// customData returns the machine's custom data.
func (p *Provider) customData(ctx context.Context, claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass, o offer.Offer, order *machine.Order) (string, error) {
	values := userdata.Values{
		ClusterName: p.config.ClusterName, ClusterEndpoint: p.config.ClusterEndpoint, ClusterCABundle: p.config.ClusterCABundle,
		NodeClaim: claim.Name, NodePool: claim.Labels[v1.NodePoolLabelKey], NodeName: order.Name,
		ProviderID: string(machine.ID(p.cloud.Subscription, p.config.ResourceGroup, order.Name)), KubernetesVersion: ptr.Deref(c.Status.KubernetesVersion, ""),
		Region: p.cloud.Location, Zone: o.Zone, InstanceType: o.InstanceType, CapacityType: o.CapacityType, MaxPods: int(o.Type.Capacity.Pods().Value()),
		Labels: labelsOf(claim, o), Taints: taintsOf(claim),
	}
	var err error
	if p.config.ClusterCABundle != "" {
		if values.CACertHash, err = caCertHash(p.config.ClusterCABundle); err != nil {
			return "", launchError(claim, "UserDataResolutionFailed", err)
		}
	}
	if p.tokens != nil && userdata.Needs(c.Spec.UserData) {
		if values.JoinToken, err = p.tokens.Token(ctx, claim); err != nil {
			return "", launchError(claim, "JoinTokenFailed", err)
		}
	}
	text, err := userdata.Render(c.Spec.UserData, values)
	if err != nil {
		return "", launchError(claim, "UserDataResolutionFailed", fmt.Errorf("spec.userData of AKSNodeClass %s: %w", c.Name, err))
	}
	return text, nil
}

func caCertHash(bundle string) (string, error) {
	pem, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		return "", fmt.Errorf("read the cluster's certificate authorities (CLUSTER_CA_BUNDLE): %w", err)
	}
	return userdata.CACertHash(pem)
}

// taintsOf returns the taints with which a machine's kubelet registers.
func taintsOf(claim *v1.NodeClaim) []corev1.Taint {
	out := append(v1.CoreTaints(claim.Spec.Taints), v1.CoreTaints(claim.Spec.StartupTaints)...)
	return append(out, v1.UnregisteredTaint())
}

// zoneNumber returns the number of a zone, "1" of "eastus-1", "" for no zone.
func zoneNumber(zone string) string {
	if zone == assortment.RegionalZone {
		return ""
	}
	return zone[strings.LastIndex(zone, "-")+1:]
}

// subnetOf returns the subnet of a class's machines.
func (p *Provider) subnetOf(c *azurev1beta1.AKSNodeClass) string {
	if c.Spec.VNETSubnetID != "" {
		return c.Spec.VNETSubnetID
	}
	return p.config.SubnetID
}

// identitiesOf returns the user-assigned identities of a class's machines, each once.
func (p *Provider) identitiesOf(c *azurev1beta1.AKSNodeClass) (out []string) {
	seen := map[string]bool{}
	for _, list := range [][]string{p.config.NodeIdentities, c.Spec.ManagedIdentities} {
		for _, id := range list {
			if key := strings.ToLower(id); !seen[key] {
				seen[key] = true
				out = append(out, id)
			}
		}
	}
	return out
}

// tagsOf returns the tags of a claim's machine and its network interface: those of the installation, of the class, and our own. Later ones
// override. Azure ignores the case of keys.
func (p *Provider) tagsOf(claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass) map[string]string {
	own := map[string]string{
		azurev1beta1.ClusterTagKey: p.config.ClusterName, azurev1beta1.NodeClassLabelKey: c.Name,
		v1.MachineClaimAnnotationKey: claim.Name, v1.MachineClaimUIDAnnotationKey: string(claim.UID),
	}
	if pool := claim.Labels[v1.NodePoolLabelKey]; pool != "" {
		own[v1.NodePoolLabelKey] = pool
	}
	out, written := map[string]string{}, map[string]string{} // by key; and the spelling of each key
	for _, tags := range []map[string]string{p.config.AdditionalTags, c.Spec.Tags, own} {
		for key, value := range tags {
			key = machine.TagKey(key)
			if other, again := written[strings.ToLower(key)]; again {
				delete(out, other)
			}
			out[key], written[strings.ToLower(key)] = value, key
		}
	}
	return out
}

// newStrangersKey returns a public key whose private key is thrown away.
func newStrangersKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make an unused SSH key: %w", err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("make an unused SSH key: %w", err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
}
