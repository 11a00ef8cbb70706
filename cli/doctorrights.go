package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"tenon.sh/deploy"
	"tenon.sh/provider/azure"
)

// rightsAtOnce is the number of questions about rights that are asked in parallel.
const rightsAtOnce = 10

// rights checks whether the controller's account has every right that its settings need. In the controller's own pod, which may not read its
// Deployment, the account is the pod's.
func (g *gatherer) rights(ctx context.Context, in *installation, opt *ControllerOptions, noNominations bool) {
	var account, namespace string
	ask := g.mayOther
	switch {
	case in.deployment != nil:
		namespace = in.deployment.Namespace
		account = namespace + "/" + cmp.Or(in.deployment.Spec.Template.Spec.ServiceAccountName, "default")
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		account, namespace, ask = "of this pod", ownLeaseNamespace(), g.maySelf
	default:
		return
	}
	settings, err := in.settings(opt)
	if err != nil {
		g.gap("rights", err)
		return
	}
	settings.NominatePods = !noNominations
	wanted, err := RightsOf(settings, namespace)
	if err != nil {
		g.gap("rights", err)
		return
	}
	denied, err := deniedOf(ctx, wanted, func(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
		return ask(ctx, account, r)
	})
	if err != nil {
		g.gap("the rights of ServiceAccount "+account, err)
		return
	}
	g.picture.Account, g.picture.Denied = account, denied
}

// deniedOf returns the rights that the account in question lacks.
func deniedOf(ctx context.Context, wanted []authorizationv1.ResourceAttributes, ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) (out []string, err error) {
	denied := make([]bool, len(wanted))
	var group errgroup.Group
	group.SetLimit(rightsAtOnce)
	for i := range wanted {
		group.Go(func() error {
			allowed, err := ask(ctx, &wanted[i])
			denied[i] = !allowed
			return err
		})
	}
	if err := group.Wait(); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("asking what others may do needs the right to create subjectaccessreviews: %w", err)
		}
		return nil, err
	}
	for i, no := range denied {
		if text := rightText(&wanted[i]); no && !slices.Contains(out, text) { // two settings may need the same right
			out = append(out, text)
		}
	}
	return out, nil
}

func (g *gatherer) maySelf(ctx context.Context, _ string, r *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r}}
	err := g.Create(ctx, review)
	return review.Status.Allowed, err
}

func (g *gatherer) mayOther(ctx context.Context, account string, r *authorizationv1.ResourceAttributes) (bool, error) {
	namespace, name, _ := strings.Cut(account, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + namespace + ":" + name, ResourceAttributes: r,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}}
	err := g.Create(ctx, review)
	return review.Status.Allowed, err
}

func rightText(r *authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// RightsOf returns the rights that a controller with a Lease in a namespace needs. It takes the rights in the manifests of the program, which
// are for a simulated cloud, and replaces the cloud's rights by those for the controller's own cloud.
func RightsOf(o *ControllerOptions, namespace string) (out []authorizationv1.ResourceAttributes, err error) {
	for _, file := range []string{"rbac/rbac.yaml", "rbac/settings.yaml"} {
		text, err := deploy.RBAC.ReadFile(file)
		if err != nil {
			return nil, err
		}
		rights, err := rightsIn(string(text), namespace, o.needs)
		if err != nil {
			return nil, err
		}
		out = append(out, rights...)
	}
	if !o.NominatePods {
		out = slices.DeleteFunc(out, func(r authorizationv1.ResourceAttributes) bool {
			return r.Resource == "pods" && r.Subresource == "status"
		})
	}
	return o.inCloud(out, namespace), nil
}

// inCloud replaces the rights for the simulated cloud by the rights for the controller's cloud.
func (o *ControllerOptions) inCloud(out []authorizationv1.ResourceAttributes, namespace string) []authorizationv1.ResourceAttributes {
	simulated, kind := classKindsOf(cloudKWOK)[0].Group, classKindsOf(o.CloudProvider)[0]
	if kind.Group == simulated {
		return out
	}
	out = slices.DeleteFunc(out, func(r authorizationv1.ResourceAttributes) bool {
		return slices.Contains([]string{"nodes", "csinodes", "resourceslices"}, r.Resource) && r.Verb == "create" || r.Resource == "nodes" && r.Subresource == "status" || r.Group == simulated && r.Verb == "get"
	})
	classes := strings.ToLower(kind.Kind) + "es"
	for i := range out {
		if r := &out[i]; r.Group == simulated {
			r.Group, r.Resource = kind.Group, classes
		}
	}
	if o.CloudProvider == cloudAWS || o.CloudProvider == cloudAzure { // the controller writes a fingerprint to the class
		out = append(out, authorizationv1.ResourceAttributes{Group: kind.Group, Resource: classes, Verb: "patch"})
	}
	aks := o.CloudProvider == cloudAzure && o.ProvisionMode != azure.ModeUserData
	if aks || o.CloudProvider == cloudAWS {
		out = append(out, authorizationv1.ResourceAttributes{Resource: "services", Verb: "get", Namespace: "kube-system", Name: "kube-dns"})
	}
	if aks {
		out = append(out, authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: "get", Namespace: namespace, Name: "upcoming-maintenance-window"})
	}
	if o.CloudProvider == cloudAzure && o.JoinTokens {
		for _, verb := range []string{"get", "list", "create", "update", "delete"} {
			out = append(out, authorizationv1.ResourceAttributes{Resource: "secrets", Verb: verb, Namespace: "kube-system"})
		}
	}
	return out
}

// rightsIn returns the rights that manifests grant. Rights of a Role apply to a namespace. A Role for a setting counts only if needs returns
// true for the setting.
func rightsIn(manifests, namespace string, needs func(setting string) bool) (out []authorizationv1.ResourceAttributes, err error) {
	for _, document := range strings.Split(manifests, "\n---\n") {
		var role rbacv1.ClusterRole // a Role has rules of the same form
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, err
		}
		if setting, labelled := role.Labels[deploy.RightsFor]; labelled && !needs(setting) {
			continue
		}
		switch role.Kind {
		case "ClusterRole":
			out = append(out, flattened(role.Rules, "")...)
		case "Role":
			out = append(out, flattened(role.Rules, namespace)...)
		}
	}
	return out, nil
}

func flattened(rules []rbacv1.PolicyRule, namespace string) (out []authorizationv1.ResourceAttributes) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, sub, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					r := authorizationv1.ResourceAttributes{Namespace: namespace, Group: group, Resource: name, Subresource: sub, Verb: verb}
					if len(rule.ResourceNames) > 0 {
						r.Name = rule.ResourceNames[0]
					}
					out = append(out, r)
				}
			}
		}
	}
	return out
}
