package cli

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"tenon.sh/deploy"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi"
)

// examineClusterAPI looks at the management cluster, as the controller would reach it.
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
	findings := clusterapi.Examiner{Connection: connection, Client: g.Client}.Examine(ctx, g.picture.Classes)
	manage, err := newGatherer(config)
	if err != nil {
		return append(findings, unseen(err)...)
	}
	ask := func(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
		return manage.maySelf(ctx, "", r)
	}
	account, joined := g.picture.Account, o.controller.ClusterAPIKubeconfig == "" && o.controller.ClusterAPIURL == ""
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

// managementRights says which of the rights that it takes in the management cluster are missing.
func managementRights(ctx context.Context, ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) []provider.Finding {
	finding := provider.Finding{Level: provider.OK, Check: "management rights", Says: "the controller may do all that it does in the management cluster"}
	wanted, err := rightsIn(deploy.ManagementRBAC, "")
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
