package cli

import (
	"cmp"
	"context"

	"k8s.io/utils/clock"

	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/examine"
)

// examineAzure looks at the subscription with the credentials of whoever runs this. Which subscription and location it is, the
// controller's Deployment says where the environment does not.
func (o *doctorOptions) examineAzure(ctx context.Context, classes []provider.Class, in *installation) []provider.Finding {
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
	return examinerOf(o.controller.azureConfig(), reached).Examine(ctx, classes)
}

// examinerOf is an examiner for what the provider is told.
func examinerOf(cfg azure.Config, reached *cloud.Cloud) provider.Examiner {
	return examine.New(examine.Config{
		Cloud: reached, Clock: clock.RealClock{}, ResourceGroup: cfg.ResourceGroup, SubnetID: cfg.SubnetID, DiskEncryptionSetID: cfg.DiskEncryptionSetID,
		NodeIdentities: cfg.NodeIdentities, SelfManaged: cfg.Mode == azure.ModeUserData, UseSIG: cfg.UseSIG, SIGSubscription: cfg.SIGSubscription,
	})
}
