package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/bootstrap"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/provider/azure/userdata"
)

// versionFor is the time for which the API server's version is cached.
const versionFor = 15 * time.Minute

// verdict is the result of the check of one part of a class. The zero value means that the part is ready.
type verdict struct {
	// reason and message describe the problem.
	reason, message string
	// note is a message for a part that is ready.
	note string
	// err means that the check failed: the earlier result stays.
	err error
}

func wrong(reason, format string, values ...any) verdict {
	return verdict{reason: reason, message: fmt.Sprintf(format, values...)}
}

// part is something that a class needs, with its condition.
type part struct {
	condition string
	find      func(ctx context.Context, class *azurev1beta1.AKSNodeClass) verdict
}

// parts returns the parts in the order of their checks, because later parts depend on earlier ones.
func (p *Provider) parts() []part {
	return []part{
		{azurev1beta1.ConditionKubernetesVersionReady, p.findVersion},
		{azurev1beta1.ConditionImagesReady, p.findImages},
		{azurev1beta1.ConditionSubnetsReady, p.findSubnet},
		{azurev1beta1.ConditionLocalDNSReady, p.findLocalDNS},
		{azurev1beta1.ConditionValidationSucceeded, p.validate},
	}
}

// Resolve finds the objects to which the class refers, and fills in its status and one condition for each part. It returns the problems of
// all parts. If a part cannot be checked, an earlier success stays, so that a class stays ready while Azure is busy.
func (p *Provider) Resolve(ctx context.Context, class provider.Class) (problem string, err error) {
	c, err := classOf(class)
	if err != nil {
		return "", err
	}
	if err := p.stamp(ctx, c); err != nil {
		return "", err
	}
	var problems []string
	for _, part := range p.parts() {
		v := part.find(ctx, c)
		if ctx.Err() != nil {
			return "", fmt.Errorf("resolve AKSNodeClass %s: %w", c.Name, ctx.Err())
		}
		if text := p.judge(ctx, c, part.condition, v); text != "" {
			problems = append(problems, text)
		}
	}
	return strings.Join(problems, "; "), nil
}

// judge writes the condition of a part, and returns its problem.
func (p *Provider) judge(ctx context.Context, c *azurev1beta1.AKSNodeClass, condition string, v verdict) string {
	status := metav1.ConditionTrue
	switch {
	case v.err != nil:
		if was := v1.GetCondition(c, condition); was != nil && was.Status == metav1.ConditionTrue && was.ObservedGeneration == c.Generation {
			log.FromContext(ctx).Error(v.err, "what was found before is used", "AKSNodeClass", c.Name, "condition", condition)
			return ""
		}
		status, v.reason, v.message = metav1.ConditionUnknown, azurev1beta1.ReasonResolutionFailed, p.explained(v.err).Error()
	case v.reason != "":
		status = metav1.ConditionFalse
	default:
		v.message = v.note
	}
	v1.SetCondition(c, condition, status, v.reason, v.message, p.clock.Now())
	if status == metav1.ConditionTrue {
		return ""
	}
	return condition + ": " + v.message
}

// findVersion asks the API server for its version. The class's version never decreases, because machines of the newer version already exist.
func (p *Provider) findVersion(ctx context.Context, c *azurev1beta1.AKSNodeClass) verdict {
	now, err := p.versions.Get(ctx, "", func(context.Context) (string, error) {
		v, err := p.config.Version.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("ask the API server for its version: %w", err)
		}
		return strings.TrimPrefix(v.GitVersion, "v"), nil
	})
	if err != nil {
		return verdict{err: err}
	}
	read, err := version.ParseGeneric(now)
	if err != nil {
		return verdict{err: fmt.Errorf("read the API server's version %q: %w", now, err)}
	}
	was, err := version.ParseGeneric(ptr.Deref(c.Status.KubernetesVersion, "0.0"))
	if err == nil && read.LessThan(was) {
		return verdict{}
	}
	if text := read.String(); c.Status.KubernetesVersion == nil || *c.Status.KubernetesVersion != text {
		c.Status.KubernetesVersion = &text
		if !p.selfManaged() { // other images fit the new version
			v1.SetCondition(c, azurev1beta1.ConditionImagesReady, metav1.ConditionFalse, azurev1beta1.ReasonKubernetesUpgrade, "images for Kubernetes "+text+" are looked for", p.clock.Now())
		}
	}
	return verdict{}
}

func (p *Provider) findImages(ctx context.Context, c *azurev1beta1.AKSNodeClass) verdict {
	if p.selfManaged() && c.Spec.ImageFamily != azurev1beta1.FamilyCustom {
		return wrong(azurev1beta1.ReasonImagesNotFound, "spec.imageFamily is %q, whose images start nodes of AKS: with PROVISION_MODE=%s it must be %s, and spec.imageID say which image", c.Spec.ImageFamily, ModeUserData, azurev1beta1.FamilyCustom)
	}
	images, problem, err := p.images.Find(ctx, c, ptr.Deref(c.Status.KubernetesVersion, ""))
	switch {
	case err != nil:
		return verdict{err: err}
	case problem.Reason != "":
		c.Status.Images = nil
		return wrong(problem.Reason, "%s", problem.Message)
	}
	c.Status.Images = images
	return verdict{}
}

// maintenanceWindow returns AKS's data about the maintenance window of its nodes, nil if there is none.
func (p *Provider) maintenanceWindow(ctx context.Context) (map[string]string, error) {
	if p.config.SystemNamespace == "" {
		return nil, nil
	}
	m := &corev1.ConfigMap{}
	err := p.config.reader().Get(ctx, client.ObjectKey{Namespace: p.config.SystemNamespace, Name: "upcoming-maintenance-window"}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/upcoming-maintenance-window: %w", p.config.SystemNamespace, err)
	}
	return m.Data, nil
}

// findSubnet checks the class's subnet, and whether it has free addresses.
func (p *Provider) findSubnet(ctx context.Context, c *azurev1beta1.AKSNodeClass) verdict {
	id := p.subnetOf(c)
	if !isID(id, "Microsoft.Network/virtualNetworks/subnets") {
		return wrong(azurev1beta1.ReasonSubnetIDInvalid, "%q is not the resource ID of a subnet", id)
	}
	if !p.selfManaged() && !strings.EqualFold(network(id), network(p.config.SubnetID)) {
		return wrong(azurev1beta1.ReasonSubnetIDInvalid, "subnet %s is not in the cluster's virtual network %s, which nodes of AKS must be in", id, network(p.config.SubnetID))
	}
	subnet, err := p.cloud.Subnet(ctx, id)
	switch {
	case cloud.NotFound(err):
		return wrong(azurev1beta1.ReasonSubnetNotFound, "subnet %s does not exist", id)
	case cloud.Denied(err):
		return wrong(azurev1beta1.ReasonSubnetUnknownError, "%v", p.explained(err))
	case err != nil:
		return verdict{err: err}
	}
	if all, used := subnet.Addresses(); all > 0 && used >= all {
		return wrong(azurev1beta1.ReasonSubnetFull, "all %d addresses of subnet %s are in use: enlarge it, or name another in spec.vnetSubnetID", all, id)
	}
	return verdict{}
}

// network returns the ID of the virtual network of a subnet's ID.
func network(subnet string) string {
	i := strings.LastIndex(strings.ToLower(subnet), "/subnets/")
	return subnet[:max(i, 0)]
}

// findLocalDNS sets the state of the nodes' own DNS cache: always disabled, see bootstrap.Ignored.
func (p *Provider) findLocalDNS(_ context.Context, c *azurev1beta1.AKSNodeClass) verdict {
	c.Status.LocalDNSState = new("Disabled")
	return verdict{}
}

// validate checks parts of the class that the API server cannot check.
func (p *Provider) validate(ctx context.Context, c *azurev1beta1.AKSNodeClass) verdict {
	const reason = azurev1beta1.ReasonValidationFailed
	tags := map[string]bool{}
	for key := range c.Spec.Tags {
		for _, own := range ownTags() {
			if strings.EqualFold(machine.TagKey(key), machine.TagKey(own)) {
				tags[key] = true
			}
		}
	}
	for key := range tags {
		return wrong(reason, "spec.tags: %s is set by the controller", key)
	}
	if n := len(p.tagsOf(&v1.NodeClaim{}, c)); n > mostTags {
		return wrong(reason, "machines would have %d tags with those of the controller: Azure takes %d", n, mostTags)
	}
	userData := p.validateUserData(c)
	if userData.reason != "" {
		return userData
	}
	if id := p.config.DiskEncryptionSetID; id != "" {
		err := p.cloud.DiskEncryptionSet(ctx, id)
		switch {
		case cloud.Denied(err) || cloud.NotFound(err):
			return wrong(azurev1beta1.ReasonDiskEncryptionSetRights, "disk encryption set %s cannot be read: grant Reader on it to the controller's identity: %v", id, err)
		case err != nil:
			return verdict{err: err}
		}
	}
	return userData
}

// mostTags is the largest number of tags on one resource in Azure.
const mostTags = 50

func (p *Provider) validateUserData(c *azurev1beta1.AKSNodeClass) verdict {
	const reason = azurev1beta1.ReasonValidationFailed
	text := c.Spec.UserData
	switch {
	case !p.selfManaged() && text != "":
		return wrong(reason, "spec.userData is for clusters that are not AKS: set PROVISION_MODE=%s", ModeUserData)
	case !p.selfManaged():
		if ignored := bootstrap.Ignored(c); len(ignored) > 0 {
			return verdict{note: fmt.Sprintf("%s cannot act where images start their kubelets themselves (PROVISION_MODE=%s): machines are the same without", strings.Join(ignored, " and "), ModeScriptless)}
		}
		return verdict{}
	case text == "":
		return wrong(reason, "spec.userData is empty: with PROVISION_MODE=%s it is what has machines join the cluster", ModeUserData)
	case len(text) > userdata.Limit:
		return wrong(reason, "spec.userData has %d bytes, Azure takes %d: load the rest from elsewhere", len(text), userdata.Limit)
	}
	if err := userdata.Check(text); err != nil {
		return wrong(reason, "spec.userData: %v", err)
	}
	if userdata.Needs(text) && p.tokens == nil {
		return wrong(reason, "spec.userData asks for {{.JoinToken}}, and tokens are not made: set JOIN_TOKENS=true, and give the controller the rights for them (chart value settings.azure.joinTokens)")
	}
	return verdict{}
}

// explained adds the remedy to an error.
func (p *Provider) explained(err error) error {
	if err == nil {
		return nil
	}
	if !cloud.Denied(err) && !cloud.Unknown(err) {
		return err
	}
	var call *cloud.Error
	if cloud.Unknown(err) || !errors.As(err, &call) {
		return fmt.Errorf("%w: Azure does not know the controller's identity: check AZURE_CLIENT_ID, AZURE_TENANT_ID and the federated credential of the service account", err)
	}
	role, scope := cloud.RoleOf(call.Call), "/subscriptions/"+p.cloud.Subscription+"/resourceGroups/"+p.config.ResourceGroup
	switch {
	case strings.HasPrefix(call.Call, "Subnets_"):
		scope = "the subnet"
	case strings.HasPrefix(call.Call, "ResourceSkus_"), strings.HasPrefix(call.Call, "Usage_"):
		scope = "/subscriptions/" + p.cloud.Subscription
	case strings.Contains(call.Call, "Image") || strings.HasPrefix(call.Call, "Gallery"):
		scope = "the image"
	}
	return fmt.Errorf("%w: grant role %q on %s to the controller's identity", err, role, scope)
}
