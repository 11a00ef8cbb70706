package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"tenon.sh/deploy"
)

// rightsAtOnce is how many questions about rights are asked at the same time.
const rightsAtOnce = 10

// rights asks for everything that the installed manifests allow whether the controller's account may do it; pods' status it has to
// write for nominations only, and what feature gates need it may lack without them. In the controller's own pod, which may not see its
// Deployment, that is whoever asks.
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
	wanted, err := RightsOf(opt.CloudProvider, namespace)
	if err != nil {
		g.gap("rights", err)
		return
	}
	grace, _ := in.lookup(environment()["cluster-autoscaler-grace"])
	if hears, err := time.ParseDuration(cmp.Or(grace, os.Getenv(environment()["cluster-autoscaler-grace"]))); err == nil && hears > 0 {
		wanted = append(wanted, authorizationv1.ResourceAttributes{Resource: "events", Verb: "list"}, authorizationv1.ResourceAttributes{Resource: "events", Verb: "watch"})
	}
	if opt.FeatureGates["PodDeletionCostManagement"] {
		wanted = append(wanted, authorizationv1.ResourceAttributes{Resource: "pods", Verb: "patch"})
	}
	wanted = slices.DeleteFunc(wanted, func(r authorizationv1.ResourceAttributes) bool {
		return noNominations && r.Resource == "pods" && r.Subresource == "status"
	})
	denied, err := deniedOf(ctx, wanted, func(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
		return ask(ctx, account, r)
	})
	if err != nil {
		g.gap("the rights of ServiceAccount "+account, err)
		return
	}
	g.picture.Account, g.picture.Denied = account, denied
}

// deniedOf are those of some rights that whoever is asked about lacks.
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
		if no {
			out = append(out, rightText(&wanted[i]))
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

// RightsOf are the rights of a controller for a cloud whose Lease is in a namespace: those of the manifests that come with
// the program.
func RightsOf(cloud, namespace string) (out []authorizationv1.ResourceAttributes, err error) {
	text, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
	if err != nil {
		return nil, err
	}
	if out, err = rightsIn(string(text), namespace); err != nil {
		return nil, err
	}
	simulated, kind := classKindsOf(cloudKWOK)[0].Group, classKindsOf(cloud)[0]
	if kind.Group == simulated {
		return out, nil
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
	if cloud == cloudAWS || cloud == cloudAzure { // the fingerprint on the class
		out = append(out, authorizationv1.ResourceAttributes{Group: kind.Group, Resource: classes, Verb: "patch"})
	}
	if cloud == cloudAWS {
		out = append(out,
			authorizationv1.ResourceAttributes{Resource: "services", Verb: "get", Namespace: "kube-system", Name: "kube-dns"})
	}
	return out, nil
}

// rightsIn are those that manifests grant, of Roles in a namespace.
func rightsIn(manifests, namespace string) (out []authorizationv1.ResourceAttributes, err error) {
	for _, document := range strings.Split(manifests, "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, err
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
