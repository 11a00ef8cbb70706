package clusterapi_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

// cached answers for Machines as an informer's cache does to those who promise not to change what they get; for everything else
// another reader does.
type cached struct {
	client.Client
	machines []contract.Machine
}

func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if machines, ok := list.(*contract.MachineList); ok {
		machines.Items = append(machines.Items, c.machines...)
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// Listing the machines of a large cluster, and finding out what each is.
func BenchmarkMachines(b *testing.B) {
	w := newWorld(b)
	const deployments, each = 50, 100
	c := cached{Client: w.management}
	for i := range deployments {
		name := fmt.Sprintf("md-%02d", i)
		w.create(b, w.management, deployment(name, "small", "a", "0.10"))
		for j := range each {
			id := fmt.Sprintf("%s-%03d", name, j)
			m := contract.Machine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: id, UID: types.UID(id), Labels: map[string]string{contract.DeploymentNameLabel: name},
				Annotations: map[string]string{v1.MachineClaimAnnotationKey: id, v1.MachineClaimUIDAnnotationKey: "uid-" + id, v1.MachineClusterAnnotationKey: "this-cluster"},
			}}
			m.Spec.ProviderID = "fake://" + id
			c.machines = append(c.machines, m)
		}
	}
	p, err := clusterapi.New(clusterapi.Config{Client: w.workload, Clock: clock.RealClock{}, Management: func() (*clusterapi.Management, error) {
		return &clusterapi.Management{Live: w.management, Cached: c}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		list, err := p.Machines(b.Context())
		if err != nil || len(list) != deployments*each {
			b.Fatalf("%d machines, %v", len(list), err)
		}
	}
}
