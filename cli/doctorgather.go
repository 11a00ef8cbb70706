package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/crds"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller/nodepool"
	"tenon.sh/doctor"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// gatherer makes the picture that doctor judges. An object that it may not read becomes a gap.
type gatherer struct {
	stock
	config    *rest.Config
	picture   *doctor.Picture
	installed *installation // the found parts of the controller
}

func newGatherer(config *rest.Config) (*gatherer, error) {
	scheme := cluster.Scheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, admissionv1.AddToScheme, discoveryv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("read the cluster: %w", err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	return &gatherer{stock{cluster.OneCase(c)}, config, &doctor.Picture{Now: time.Now(), Notes: map[string][]string{}}, &installation{}}, nil
}

// see lists the objects of a kind. It returns false, and records a gap, if that fails.
func (g *gatherer) see(ctx context.Context, what string, into client.ObjectList, options ...client.ListOption) bool {
	err := g.List(ctx, into, options...)
	if err != nil {
		g.gap(what, err)
	}
	return err == nil
}

func (g *gatherer) gap(what string, err error) {
	g.picture.Gaps = append(g.picture.Gaps, doctor.Gap{What: what, Why: oneLine(err)})
}

// gather makes the picture. An error means that there is none worth judging.
func (g *gatherer) gather(ctx context.Context, o *doctorOptions, command *cobra.Command, shown *progress) (*doctor.Picture, error) {
	p := g.picture
	shown.say("reading the objects of the cluster")
	documents, err := o.documents(ctx, newTerminal(shown.beside(command.ErrOrStderr())))
	if err != nil {
		return nil, err
	}
	reading, err := scenario.Read(scenario.Input{Documents: documents, Now: p.Now})
	if err != nil {
		return nil, err
	}
	shown.say("looking for the controller")
	p.Answers = o.answered(ctx, g.config, documents)
	p.Snapshot, p.Options = reading.Snapshot, reading.Options
	for _, pool := range p.Snapshot.NodePools {
		p.Notes[pool.Name] = nodepool.Unsupported(pool, kube.ClassOf(reading.Snapshot, pool), false)
	}
	in, err := findInstallation(ctx, g.config, o.controllerNamespace)
	if err != nil {
		g.gap("the controller", err)
		in = &installation{}
	}
	g.installed = in
	if err := in.complete(command.Flags(), &o.controller, g.groups(ctx)); err != nil {
		o.cloud = false
		g.gap("the cloud", err)
	}
	kinds := allClassKinds()
	if inv, err := g.take(ctx, kinds); err != nil {
		g.gap("node classes", err)
	} else {
		p.Classes = inv.Classes
	}
	shown.say("reading definitions, Deployments and webhooks")
	g.definitions(ctx, classKindsOf(o.controller.CloudProvider)[0])
	g.controllers(ctx)
	g.hooks(ctx)
	shown.say("asking which rights the controller has")
	off, _ := in.lookup(environment()["nominate-pods"])
	g.rights(ctx, in, &o.controller, p.Options.NoNominations || off == "false")
	return p, nil
}

// answered reports whether a controller serves its catalog. Without NodePools the catalog has not been read yet, so answered reads it.
func (o *doctorOptions) answered(ctx context.Context, config *rest.Config, documents []scenario.Document) bool {
	if holds(documents, v1.Group, "NodePool") || o.catalogURL != "" {
		return slices.ContainsFunc(documents, func(d scenario.Document) bool { return d.Object.GetKind() == engine.CatalogKind })
	}
	catalog, err := o.catalog(ctx, config)
	return err == nil && catalog != nil
}

func (g *gatherer) definitions(ctx context.Context, class schema.GroupVersionKind) {
	g.picture.Class = strings.ToLower(class.Kind) + "es." + class.Group
	wanted, err := crds.All()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err != nil || !g.see(ctx, "CRDs", &list) {
		return
	}
	g.picture.Wanted = wanted
	for i := range list.Items {
		g.picture.Installed = append(g.picture.Installed, &list.Items[i])
	}
}

func (g *gatherer) controllers(ctx context.Context) {
	var deployments appsv1.DeploymentList
	if g.see(ctx, "Deployments", &deployments) {
		for i := range deployments.Items {
			g.picture.Deployments = append(g.picture.Deployments, &deployments.Items[i])
		}
	}
	status := &corev1.ConfigMap{}
	if err := g.Get(ctx, client.ObjectKey{Namespace: doctor.AutoscalerStatusNamespace, Name: doctor.AutoscalerStatusName}, status); err == nil {
		g.picture.AutoscalerStatus = status // the ConfigMap is optional, and reading it is too
	}
	var leases coordinationv1.LeaseList
	if g.see(ctx, "Leases", &leases, client.MatchingFields{"metadata.name": leaseName}) {
		for i := range leases.Items {
			if in := g.installed; in != nil && in.lease != nil && slices.Contains(in.others, leases.Items[i].Namespace) {
				continue
			}
			g.picture.Leases = append(g.picture.Leases, &leases.Items[i])
		}
	}
}

// hooks reads the admission webhooks, and whether they can be reached.
func (g *gatherer) hooks(ctx context.Context) {
	var validating admissionv1.ValidatingWebhookConfigurationList
	if g.see(ctx, "ValidatingWebhookConfigurations", &validating) {
		for _, c := range validating.Items {
			for _, h := range c.Webhooks {
				g.hook(ctx, doctor.Hook{Kind: "ValidatingWebhookConfiguration", Configuration: c.Name, Name: h.Name, Rules: h.Rules}, h.FailurePolicy, h.ClientConfig)
			}
		}
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	if g.see(ctx, "MutatingWebhookConfigurations", &mutating) {
		for _, c := range mutating.Items {
			for _, h := range c.Webhooks {
				g.hook(ctx, doctor.Hook{Kind: "MutatingWebhookConfiguration", Configuration: c.Name, Name: h.Name, Rules: h.Rules}, h.FailurePolicy, h.ClientConfig)
			}
		}
	}
}

func (g *gatherer) hook(ctx context.Context, h doctor.Hook, policy *admissionv1.FailurePolicyType, where admissionv1.WebhookClientConfig) {
	h.Refuses = policy == nil || *policy == admissionv1.Fail
	if s := where.Service; s != nil {
		h.Service = s.Namespace + "/" + s.Name
		if h.Endpoints = g.endpoints(ctx, s.Namespace, s.Name); h.Endpoints == 0 {
			var services corev1.ServiceList // by list, which the controller's role allows
			if !g.see(ctx, "service "+h.Service, &services, client.InNamespace(s.Namespace), client.MatchingFields{"metadata.name": s.Name}) {
				h.Endpoints = -1
			} else if len(services.Items) > 0 && services.Items[0].Spec.Type == corev1.ServiceTypeExternalName {
				h.Endpoints, h.ExternalName = -1, services.Items[0].Spec.ExternalName
			}
		}
	}
	g.picture.Hooks = append(g.picture.Hooks, h)
}

// endpoints counts the ready endpoints of a service. It returns -1 if they may not be read.
func (g *gatherer) endpoints(ctx context.Context, namespace, service string) (n int) {
	var list discoveryv1.EndpointSliceList
	if !g.see(ctx, "the endpoints of service "+namespace+"/"+service, &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}) {
		return -1
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n++
			}
		}
	}
	return n
}
