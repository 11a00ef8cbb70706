package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/devicetable"
	"tenon.sh/provider/aws/kubelet"
)

// userDataLimit is the largest size of user data in bytes that EC2 accepts.
const userDataLimit = 16384

// validate checks parts of the class that the API server cannot check: the kubelet's fields, the tags, the size of the user data, the other
// conditions, and a dry run of a launch.
func (p *Provider) validate(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	if v := p.validateNetwork(ctx, c); v != (verdict{}) {
		return v
	}
	if v := validateSharing(c); v != (verdict{}) {
		return v
	}
	if v := p.validateKubelet(c); v != (verdict{}) {
		return v
	}
	if tags := c.RestrictedTags(); len(tags) > 0 {
		return wrong(awsv1.ReasonTagValidationFailed, "spec.tags: %s are set by the controller", strings.Join(tags, ", "))
	}
	if c.Spec.UserData != nil && len(*c.Spec.UserData) > userDataLimit {
		return wrong(awsv1.ReasonUserDataTooLarge, "spec.userData has %d bytes, EC2 takes %d: load the rest from elsewhere", len(*c.Spec.UserData), userDataLimit)
	}
	if v := dependencies(c); v != (verdict{}) {
		return v
	}
	if v := p.validateNumbers(ctx, c); v != (verdict{}) {
		return v
	}
	return p.rehearse(ctx, c)
}

// validateNetwork checks that the address range of the cluster's Services is known, because nodes of AL2023 need it.
func (p *Provider) validateNetwork(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	if c.Family() != awsv1.FamilyAL2023 {
		return verdict{}
	}
	switch _, err := p.cluster.ServiceCIDR(ctx); {
	case cloud.Passing(err):
		return verdict{err: err}
	case err != nil:
		return wrong(awsv1.ReasonClusterCIDRResolutionFailed, "%s", cloud.Text(err))
	}
	return verdict{}
}

// validateSharing checks the annotation about shared GPUs, even if no pod claims a GPU.
func validateSharing(c *awsv1.EC2NodeClass) verdict {
	if _, err := devicetable.SharingOf(c.Annotations[devicetable.SharingAnnotation]); err != nil {
		return wrong(awsv1.ReasonInvalidSharing, "%v", err)
	}
	return verdict{}
}

func (p *Provider) validateKubelet(c *awsv1.EC2NodeClass) verdict {
	if invalid := kubelet.Invalid(c.Spec.Kubelet); len(invalid) > 0 {
		return wrong(awsv1.ReasonInvalidKubeletConfiguration, "%s", strings.Join(invalid, "; "))
	}
	managed, err := kubelet.Read(c.Spec.Kubelet)
	if err != nil {
		return wrong(awsv1.ReasonInvalidKubeletConfiguration, "%v", err)
	}
	fields := kubelet.Expressions(&managed)
	if len(fields) > 0 && p.expressions == nil {
		return wrong(awsv1.ReasonKubeletExpressionsDisabled, "spec.kubelet: %s hold expressions, which are computed only with AWS_FEATURE_GATES=NodeClassCEL=true",
			strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if err := p.expressions.Check(fields[field]); err != nil {
			return wrong(awsv1.ReasonKubeletExpressionInvalid, "spec.kubelet.%s: %v", field, err)
		}
	}
	if unsupported := kubelet.Unsupported(c.Family(), c.Spec.Kubelet, &managed); len(unsupported) > 0 {
		return wrong(awsv1.ReasonUnsupportedKubelet, "%s", strings.Join(unsupported, "; "))
	}
	return verdict{}
}

// validateNumbers computes the class's expressions for every instance type.
func (p *Provider) validateNumbers(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	managed, err := kubelet.Read(c.Spec.Kubelet)
	if err != nil || len(kubelet.Expressions(&managed)) == 0 {
		return verdict{err: err}
	}
	settings := p.settings(c, managed)
	problem, err := p.market.Uncomputable(ctx, &settings)
	if err != nil {
		return verdict{err: err}
	}
	if problem != nil {
		return wrong(awsv1.ReasonKubeletEvaluationFailed, "%v", problem)
	}
	return verdict{}
}

// dependencies reports the other parts that are not ready.
func dependencies(c *awsv1.EC2NodeClass) verdict {
	var missing []string
	unknown := true
	for _, condition := range []string{awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionSubnetsReady} {
		if is := v1.GetCondition(c, condition); is == nil || is.Status != metav1.ConditionTrue {
			missing = append(missing, condition)
			unknown = unknown && (is == nil || is.Status == metav1.ConditionUnknown)
		}
	}
	if len(missing) == 0 {
		return verdict{}
	}
	return verdict{reason: awsv1.ReasonDependenciesNotReady, message: "waiting for " + strings.Join(missing, ", "), unknown: unknown}
}
