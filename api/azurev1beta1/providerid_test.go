package azurev1beta1_test

import (
	"strings"
	"testing"

	"tenon.sh/api/azurev1beta1"
)

func TestProviderIDsOfOneMachineAreOne(t *testing.T) {
	t.Parallel()
	const want = "azure:///subscriptions/0a-b/resourceGroups/mc_nodes/providers/Microsoft.Compute/virtualMachines/aks-x"
	for _, id := range []string{want, strings.ToUpper(want), strings.ToLower(want), strings.Replace(want, "mc_nodes", "MC_Nodes", 1), strings.Replace(want, "0a-b", "0A-B", 1)} {
		if got := azurev1beta1.OneCase(id); got != want {
			t.Errorf("%s is %s", id, got)
		}
	}
	for _, id := range []string{
		"", "azure://", "azure:///subscriptions/S", "azure:///subscriptions/S/resourceGroups/G", "azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/",
		"azure:///subscriptions//resourceGroups/G/providers/Microsoft.Compute/virtualMachines/N", "aws:///eu-west-1A/i-0A", "kwok://Node",
		"azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/V/virtualMachines/0",
		"azure:///subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/N/extensions/E",
	} {
		if got := azurev1beta1.OneCase(id); got != id {
			t.Errorf("%q has become %q", id, got)
		}
	}
}
