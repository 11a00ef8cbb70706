package cli

import (
	"cmp"
	"context"

	"k8s.io/utils/clock"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/doctor"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/examine"
)

// examineAzure examines the subscription with the user's credentials. Subscription and location come from the environment. If one is not set there,
// it comes from the controller's Deployment.
func (o *doctorOptions) examineAzure(ctx context.Context, picture *doctor.Picture, in *installation) []provider.Finding {
	unseen := func(err error) []provider.Finding {
		return []provider.Finding{{Level: provider.Warning, Check: "azure", Says: "Azure could not be looked at: " + oneLine(err),
			Do: "set AZURE_SUBSCRIPTION_ID, LOCATION and credentials, or run this in the controller's pod, or with --cloud=false"}}
	}
	connection, err := cloud.Load(clock.RealClock{})
	if err != nil {
		return unseen(err)
	}
	installed := func(name string) string {
		value, _ := in.lookup(name)
		return value
	}
	connection.Subscription = cmp.Or(connection.Subscription, installed("AZURE_SUBSCRIPTION_ID"), installed("ARM_SUBSCRIPTION_ID"))
	connection.Location = cmp.Or(connection.Location, installed("LOCATION"))
	connection.May = func(string) error { return errChangesNothing }
	reached, err := cloud.New(connection)
	if err != nil {
		return unseen(err)
	}
	cfg := o.controller.azureConfig()
	cfg.ClusterGroup = cmp.Or(cfg.ClusterGroup, installed("ARM_RESOURCE_GROUP"))
	return examinerOf(cfg, reached, picture.Snapshot.NodeClaims).Examine(ctx, picture.Classes)
}

// examinerOf returns an examiner for the provider's settings and the claims of AKS's machines.
func examinerOf(cfg azure.Config, reached *cloud.Cloud, claims []*v1.NodeClaim) provider.Examiner {
	var machines []string
	for _, claim := range claims {
		if id := claim.Annotations[azurev1beta1.MachineResourceAnnotationKey]; id != "" {
			machines = append(machines, id)
		}
	}
	return examine.New(examine.Config{
		Cluster: cfg.ClusterName, ClusterGroup: cfg.ClusterGroup, AKSMachines: machines,
		Cloud: reached, Clock: clock.RealClock{}, ResourceGroup: cfg.ResourceGroup, SubnetID: cfg.SubnetID, DiskEncryptionSetID: cfg.DiskEncryptionSetID,
		NodeIdentities: cfg.NodeIdentities, SelfManaged: cfg.Mode == azure.ModeUserData, UseSIG: cfg.UseSIG, SIGSubscription: cfg.SIGSubscription,
	})
}
