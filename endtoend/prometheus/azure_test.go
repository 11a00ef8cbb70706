package prometheus_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/provider/azure/azuretest"
)

// TestTheAlertOfAzureFiresAndResolves: Azure refuses machines because of a right, and then does not.
func TestTheAlertOfAzureFiresAndResolves(t *testing.T) {
	w := newWorld(t)
	subscription := azuretest.New(t, clock.RealClock{})
	subscription.ForbidAKS()
	subnet := subscription.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/16")
	subscription.AddImage(azuretest.Image{
		ID:       "/subscriptions/" + subscription.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/ubuntu",
		Versions: []azuretest.Version{{Name: "1.0.0", Published: time.Now().Add(-time.Hour)}},
	})
	variables := subscription.Environment()
	for _, variable := range os.Environ() { // whatever would lead to somebody's real subscription, or through another server
		name, _, _ := strings.Cut(variable, "=")
		for _, begin := range []string{"AZURE_", "ARM_", "IDENTITY_", "MSI_"} {
			if strings.HasPrefix(name, begin) {
				t.Setenv(name, "")
			}
		}
		if strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			t.Setenv(name, "")
		}
	}
	controller := w.startController([]string{
		"--kubeconfig", w.playground.Kubeconfig(), "--cloud-provider", "azure", "--cluster-name", "demo", "--vnet-subnet-id", subnet,
		"--provision-mode", "userdata", "--join-tokens", "--cluster-endpoint", w.playground.RESTConfig().Host,
	}, variables)
	s := w.startPrometheus(pace{60, 500 * time.Millisecond}, w.installChart(controller.metrics))
	subscription.Fail("VirtualMachines_CreateOrUpdate", azuretest.Fault{Status: 403, Code: "AuthorizationFailed", Message: "The client has no authorization."})
	for _, o := range w.readObjects("../azure/testdata/pool.yaml") {
		w.apply(o)
	}
	w.pods("default", 6)
	labels := map[string]string{"error_code": "AuthorizationFailed", "phase": "sync"}
	found := w.fires(s, "TenonAzureRefusesMachines", labels)
	w.Logf("fires: %s", found.Annotations["summary"])
	subscription.Heal()
	w.resolves(s, "TenonAzureRefusesMachines", labels)
	w.dashboards(s, "Azure")
}
