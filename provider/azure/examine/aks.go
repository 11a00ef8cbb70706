package examine

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/machine"
)

// madeByAKS checks whether the caller may make AKS delete the cluster's machines that AKS itself has made, because only AKS can delete them.
func (x *Examiner) madeByAKS(ctx context.Context, machines []*armcompute.VirtualMachine) (out []provider.Finding) {
	n := 0
	for _, vm := range machines {
		if m := machine.Read(vm); m.MadeByAKS() && m.Tag(azurev1beta1.ClusterTagKey) == x.Cluster {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	clusters := x.clustersOfAKS()
	if len(clusters) == 0 {
		return []provider.Finding{warning(checkRights, "agent pools", fmt.Sprintf("AKS itself has made %d machines, and alone may delete them: it is not known in which cluster of AKS they are", n),
			"set ARM_RESOURCE_GROUP to the resource group of the cluster of AKS, and CLUSTER_NAME to its name")}
	}
	actions := cloud.ActionsOn(cloud.OnWhatIsNamed, "Microsoft.ContainerService/", "AgentPools_DeleteMachines")
	for _, id := range clusters {
		out = append(out, x.rights(ctx, "cluster "+last(id)+" of AKS", id, actions)...)
	}
	return out
}

// clustersOfAKS returns the IDs of the AKS clusters of machines that AKS has made, from claims and the settings, each once.
func (x *Examiner) clustersOfAKS() (out []string) {
	seen := map[string]bool{}
	add := func(id string) {
		if key := strings.ToLower(id); !seen[key] {
			seen[key] = true
			out = append(out, id)
		}
	}
	for _, id := range x.AKSMachines {
		parsed, err := arm.ParseResourceID(id)
		if err == nil && strings.EqualFold(parsed.ResourceType.String(), "Microsoft.ContainerService/managedClusters/agentPools/machines") {
			add(parsed.Parent.Parent.String())
		}
	}
	if x.ClusterGroup != "" {
		add("/subscriptions/" + x.Cloud.Subscription + "/resourceGroups/" + x.ClusterGroup + "/providers/Microsoft.ContainerService/managedClusters/" + x.Cluster)
	}
	return out
}
