package cli

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/examine"
)

func TestDoctorKnowsWhereAKSHasMadeMachines(t *testing.T) {
	t.Parallel()
	const id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c/agentPools/p/machines/m"
	x := examinerOf(azure.Config{ClusterName: "demo", ClusterGroup: "clusters", Mode: azure.ModeScriptless}, nil, []*v1.NodeClaim{
		{}, {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{azurev1beta1.MachineResourceAnnotationKey: id}}},
	}).(*examine.Examiner)
	if x.Cluster != "demo" || x.ClusterGroup != "clusters" || x.SelfManaged || !slices.Equal(x.AKSMachines, []string{id}) {
		t.Errorf("got %+v", x.Config)
	}
}

func TestACloudOfSomebodyElseIsKnown(t *testing.T) {
	for file, want := range map[string]bool{"": false, "/etc/azure/environment.json": true} {
		t.Setenv("AZURE_ENVIRONMENT_FILEPATH", file)
		o := DefaultControllerOptions()
		if got := o.azureConfig().OtherCloud; got != want {
			t.Errorf("%q: %v", file, got)
		}
	}
}
