package clusterapi_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi/contract"
	"tenon.sh/provider/providertest"
)

func TestProvider(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		w := newWorld(t,
			deployment("small-a", "small", "a", "0.10"), deployment("small-b", "small", "b", "0.12"),
			deployment("medium-a", "medium", "a", "0.25"), deployment("large-a", "large", "a", "0.80"))
		w.class.Spec.Overhead = &v1.Overhead{KubeReserved: v1.ReservedResources{"cpu": resource.MustParse("100m")}}
		notReady := w.classRef()
		notReady.Object = &clusterapiv1alpha1.ClusterAPINodeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{ClusterName: "elsewhere"},
		}
		return providertest.Fixture{
			Provider: w.provider, Class: w.classRef(), NotReady: notReady, NewClaim: w.newClaim, Settle: w.settle,
			SellOut: func(t *testing.T, offerings ...engine.OfferingID) {
				for _, o := range offerings {
					w.change(t, o.InstanceType+"-"+o.Zone, func(d *contract.MachineDeployment) { d.Annotations[contract.MaxSizeAnnotation] = "0" })
				}
			},
		}
	})
}
