package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/devicetable"
	"tenon.sh/provider/aws/fleet"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/template"
	"tenon.sh/provider/aws/userdata"
	"tenon.sh/provider/offer"
)

// tagsOf returns the tags of a claim's machine, and of the objects that EC2 makes with it.
func (p *Provider) tagsOf(claim *v1.NodeClaim, c *awsv1.EC2NodeClass) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, c.Spec.Tags)
	tags[awsv1.ClusterTagPrefix+p.config.ClusterName] = awsv1.ClusterTagOwned
	tags[awsv1.ClusterNameTagKey] = p.config.ClusterName
	tags[v1.NodePoolLabelKey] = claim.Labels[v1.NodePoolLabelKey]
	tags[awsv1.NodeClassLabelKey] = c.Name
	return tags
}

// orderer makes an order: the common properties of its machines, and one launch template for each variant.
type orderer struct {
	*Provider
	claim     *v1.NodeClaim
	class     *awsv1.EC2NodeClass
	order     *fleet.Order
	input     userdata.Input
	blueprint template.Blueprint
	kubelet   kubelet.Managed
	fields    map[string]any
	templates map[string]int // by the properties in which they differ
}

// order turns offers of one kind into a request to EC2.
func (p *Provider) order(ctx context.Context, claim *v1.NodeClaim, c *awsv1.EC2NodeClass, offers []offer.Offer) (*fleet.Order, error) {
	first := offers[0]
	o := &orderer{Provider: p, claim: claim, class: c, templates: map[string]int{}, order: &fleet.Order{
		Class: c.Name, Pool: claim.Labels[v1.NodePoolLabelKey], CapacityType: first.CapacityType,
		Block:         first.Labels[awsv1.ReservationTypeLabelKey] == awsv1.ReservationBlock,
		Interruptible: first.Labels[awsv1.ReservationInterruptibleLabelKey] == "true",
		Tags:          p.tagsOf(claim, c), Subnets: c.Status.Subnets, Group: first.Labels[awsv1.PlacementGroupIDLabelKey],
	}}
	if c.Spec.Context != nil && claim.Annotations[v1.MinValuesRelaxedAnnotationKey] != "true" {
		o.order.Context = *c.Spec.Context
	}
	_, o.order.Prioritized = claim.Annotations[v1.PriceOverlayAppliedAnnotationKey]
	if o.order.Group != "" {
		o.order.Partition = partitionOf(claim)
		if group, err := p.finder.PlacementGroup(ctx, c.Spec.PlacementGroupSelector); group != nil {
			o.order.Partitions = group.Partitions
		} else if err != nil {
			return nil, err
		}
	}
	if err := o.prepare(ctx, first); err != nil {
		return nil, err
	}
	for _, candidate := range offers {
		if err := o.add(ctx, candidate); err != nil {
			return nil, err
		}
	}
	if len(o.order.Offers) == 0 {
		return nil, fmt.Errorf("no image of the class runs on %s or on what else is asked for", first.InstanceType)
	}
	return o.order, nil
}

// partitionOf returns the partition that the claim asks for, "" if EC2 shall choose.
func partitionOf(claim *v1.NodeClaim) string {
	for _, r := range claim.Spec.Requirements {
		if r.Key == awsv1.PlacementGroupPartitionLabelKey && r.Operator == v1.In && len(r.Values) > 0 {
			return slices.Min(r.Values)
		}
	}
	return ""
}

// prepare collects the settings that all machines of the order share.
func (o *orderer) prepare(ctx context.Context, first offer.Offer) (err error) {
	if o.kubelet, err = kubelet.Read(o.class.Spec.Kubelet); err != nil {
		return err
	}
	if raw := o.class.Spec.Kubelet; raw != nil && len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &o.fields); err != nil {
			return fmt.Errorf("read spec.kubelet: %w", err)
		}
	}
	family := userdata.Family(o.class.Family())
	in := userdata.Input{
		Family: family, ClusterName: o.cluster.Name, CABundle: o.cluster.CABundle,
		Labels: userdata.LabelsFor(family, ownLabels(o.claim), o.order.CapacityType),
		Taints: userdata.TaintsFor(v1.CoreTaints(o.claim.Spec.Taints), v1.CoreTaints(o.claim.Spec.StartupTaints)),
		RAID0:  o.class.Spec.InstanceStorePolicy != nil && *o.class.Spec.InstanceStorePolicy == "RAID0",
	}
	if o.class.Spec.UserData != nil {
		in.Text = *o.class.Spec.UserData
	}
	if family != userdata.Custom {
		if in.Endpoint, err = o.cluster.Endpoint(ctx); err != nil {
			return err
		}
	}
	if family == userdata.AL2023 {
		if in.ServiceCIDR, err = o.cluster.ServiceCIDR(ctx); err != nil {
			return err
		}
	}
	if in.KubeDNS, err = o.cluster.DNS(ctx); err != nil {
		return err
	}
	o.input = in
	address, _ := netip.ParseAddr(in.KubeDNS)
	partition, _ := strconv.Atoi(o.order.Partition)
	_, enclave := o.claim.Spec.Resources.Requests[awsv1.ResourceNitroSandbox]
	o.blueprint = template.Blueprint{
		Class: o.class, Tags: o.order.Tags, Enclave: enclave, Tenancy: first.Labels[awsv1.TenancyLabelKey], Group: o.order.Group,
		Partition: partition, Spot: o.order.CapacityType == v1.CapacityTypeSpot, IPv6: address.Is6(), IPv6Metadata: o.cloud.HasIPv6Metadata(),
	}
	return nil
}

// ownLabels returns the claim's labels, and the labels from its requirements with a single value.
func ownLabels(claim *v1.NodeClaim) map[string]string {
	labels := map[string]string{}
	for _, r := range claim.Spec.Requirements {
		if r.Operator == v1.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(labels, claim.Labels)
	return labels
}

// add adds an offer, and a template for it if no equal one exists. It skips a type that no image fits.
func (o *orderer) add(ctx context.Context, candidate offer.Offer) error {
	image := images.For(o.class.Status.AMIs, candidate.Type)
	if image == nil {
		return nil
	}
	pods := candidate.Type.Capacity[corev1.ResourcePods]
	efa := int64(0)
	if q := o.claim.Spec.Resources.Requests[awsv1.ResourceEFA]; !q.IsZero() || slices.Contains(strings.Split(o.claim.Annotations[v1.RequestedDRADriversAnnotationKey], ","), devicetable.EFADriver) {
		has := candidate.Type.Capacity[awsv1.ResourceEFA]
		efa = has.Value()
	}
	kube, system, err := o.reserved(ctx, candidate.InstanceType)
	if err != nil {
		return err
	}
	key := fmt.Sprint(image.ID, pods.Value(), efa, candidate.Reservation, kube, system)
	index, known := o.templates[key]
	if !known {
		t, err := o.template(ctx, image, int32(pods.Value()), int(efa), candidate.Reservation, kube, system)
		if err != nil {
			return err
		}
		index = len(o.order.Templates)
		o.templates[key] = index
		o.order.Templates = append(o.order.Templates, t)
	}
	o.order.Offers = append(o.order.Offers, fleet.Offer{
		OfferingID: candidate.OfferingID, Price: candidate.Price, Image: image.ID, Template: index, Addresses: int(pods.Value()),
	})
	return nil
}

// reserved returns the reserved resources of a node of a type, computed from the expressions in the class. If the class has no expressions, it
// returns nil, and the class's own values apply.
func (o *orderer) reserved(ctx context.Context, kind string) (kube, system map[string]string, err error) {
	if len(kubelet.Expressions(&o.kubelet)) == 0 {
		return nil, nil, nil
	}
	settings := o.settings(o.class, o.kubelet)
	computed, err := o.market.Computed(ctx, &settings, kind)
	if err != nil {
		return nil, nil, err
	}
	return computed.Kubelet.KubeReserved, computed.Kubelet.SystemReserved, nil
}

func (o *orderer) template(ctx context.Context, image *awsv1.AMI, pods int32, efa int, reservation string, kube, system map[string]string) (*template.Template, error) {
	in := o.input
	in.MaxPods = pods
	in.BottlerocketVersion = bottlerocketVersion(o.class, image)
	in.Kubelet = o.fields
	if len(kubelet.Expressions(&o.kubelet)) > 0 {
		in.Kubelet = maps.Clone(o.fields)
		for name, computed := range map[string]map[string]string{"kubeReserved": kube, "systemReserved": system} {
			delete(in.Kubelet, name)
			if len(computed) > 0 {
				in.Kubelet[name] = plain(computed)
			}
		}
	}
	text, err := userdata.Render(in)
	if err != nil {
		return nil, err
	}
	o.metrics.userData(o.class.Name, len(text.Text))
	o.noteUserData(ctx, o.class, len(text.Text))
	b := o.blueprint
	b.Image, b.UserData, b.EFA = image.ID, text.Text, efa
	for i, r := range o.class.Status.CapacityReservations {
		if r.ID == reservation {
			b.Reservation = &o.class.Status.CapacityReservations[i]
		}
	}
	return template.New(b)
}

// plain converts a map to the form of decoded JSON.
func plain(from map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range from {
		out[key] = value
	}
	return out
}

// bottlerocketVersion returns the version of the image, "" if it is not known.
func bottlerocketVersion(c *awsv1.EC2NodeClass, image *awsv1.AMI) string {
	if c.Family() != awsv1.FamilyBottlerocket {
		return ""
	}
	if alias, found, err := c.Alias(); found && err == nil {
		return alias.Version
	}
	for _, t := range c.Spec.AMISelectorTerms {
		if version := userdata.VersionInName(t.Name); version != "" && !strings.Contains(version, "*") {
			return version
		}
	}
	return userdata.VersionInName(image.Name)
}
