package cli

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"tenon.sh/deploy"
	"tenon.sh/doctor"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi"
)

// examineClusterAPI examines the management cluster, with the controller's settings.
func (o *doctorOptions) examineClusterAPI(ctx context.Context, g *gatherer) []provider.Finding {
	unseen := func(err error) []provider.Finding {
		return []provider.Finding{{Level: provider.Warning, Check: "management cluster", Says: "it could not be looked at: " + oneLine(err),
			Do: "run this in the controller's pod, or give --cluster-api-kubeconfig, or --cloud=false"}}
	}
	config, err := o.controller.managementConfig(g.config)
	if err != nil {
		return unseen(err)
	}
	connection, err := clusterapi.NewConnection(config)
	if err != nil {
		return unseen(err)
	}
	manage, err := newGatherer(config)
	if err != nil {
		return unseen(err)
	}
	joined := o.controller.ClusterAPIKubeconfig == "" && o.controller.ClusterAPIURL == ""
	autoscalers, findings := doctor.ClusterAutoscalers(g.picture.Deployments), []provider.Finding(nil)
	if !joined {
		there, finding := autoscalersOf(ctx, manage)
		autoscalers, findings = append(autoscalers, there...), finding
	}
	findings = append(clusterapi.Examiner{Connection: connection, Client: g.Client, Autoscalers: autoscalers}.Examine(ctx, g.picture.Classes), findings...)
	ask := func(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
		return manage.maySelf(ctx, "", r)
	}
	account := g.picture.Account
	switch {
	case joined && account == "": // it is not known who the controller is
		return findings
	case joined && strings.Contains(account, "/"):
		ask = func(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
			return manage.mayOther(ctx, account, r)
		}
	}
	return append(findings, managementRights(ctx, ask)...)
}

// autoscalersOf returns the Cluster Autoscalers that run in a management cluster. They include those of other workload clusters.
func autoscalersOf(ctx context.Context, manage *gatherer) ([]*appsv1.Deployment, []provider.Finding) {
	var list appsv1.DeploymentList
	if err := manage.List(ctx, &list); err != nil {
		return nil, []provider.Finding{{Level: provider.Warning, Check: "management cluster",
			Says: "whether Cluster Autoscaler runs there is not known: " + oneLine(err), Do: "run this as somebody who may list Deployments there"}}
	}
	var all []*appsv1.Deployment
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return doctor.ClusterAutoscalers(all), nil
}

// managementRights returns a finding with the missing rights in the management cluster.
func managementRights(ctx context.Context, ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) []provider.Finding {
	finding := provider.Finding{Level: provider.OK, Check: "management rights", Says: "the controller may do all that it does in the management cluster"}
	wanted, err := rightsIn(deploy.ManagementRBAC, "", nil)
	var denied []string
	if err == nil {
		denied, err = deniedOf(ctx, wanted, ask)
	}
	switch {
	case err != nil:
		finding.Level, finding.Says, finding.Do = provider.Warning, "they could not be looked at: "+oneLine(err), "run this as somebody who may ask"
	case len(denied) > 0:
		finding.Level, finding.Says, finding.Do = provider.Problem, "the controller may not "+strings.Join(denied, ", "), "apply deploy/clusterapi/rbac.yaml in the management cluster, or install the chart's roles again"
	}
	return []provider.Finding{finding}
}
