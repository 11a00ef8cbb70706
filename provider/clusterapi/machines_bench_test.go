package clusterapi_test

import (
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

// BenchmarkMachines lists the machines of a large cluster from the informers' caches and determines their types. MB is the growth of the heap
// by the connection, including caches.
func BenchmarkMachines(b *testing.B) {
	w := newWorld(b)
	const deployments, each = 50, 100
	server := &apiServer{versions: []string{"v1beta2"}, changed: make(chan struct{}), objects: map[string][]any{
		"clusters": {&contract.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod"}}},
	}}
	for i := range deployments {
		name := fmt.Sprintf("md-%02d", i)
		server.objects["machinedeployments"] = append(server.objects["machinedeployments"], deployment(name, "small", "a", "0.10"))
		for j := range each {
			server.objects["machines"] = append(server.objects["machines"], fullMachine(name, fmt.Sprintf("%s-%03d", name, j)))
		}
	}
	before := heap()
	connection := server.connect(b)
	p, err := clusterapi.New(clusterapi.Config{Client: w.workload, Clock: clock.RealClock{}, Management: connection.Management})
	if err != nil {
		b.Fatal(err)
	}
	for machines(b.Context(), connection) == clusterapi.ErrNotConnected.Error() {
		runtime.Gosched()
	}
	if list, err := p.Machines(b.Context()); err != nil || len(list) != deployments*each {
		b.Fatalf("%d machines, %v", len(list), err)
	}
	held := heap() - before
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Machines(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(held/1e6, "MB")
}

// heap returns the bytes in use, without self-emptying pools.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// fullMachine returns a Machine with all fields that Cluster API, its providers and its clients set.
func fullMachine(deployment, name string) map[string]any {
	var conditions []any
	for _, kind := range []string{"Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady", "NodeReady", "NodeHealthy", "HealthCheckSucceeded", "Deleting", "Paused"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2030-01-01T00:00:00Z", "message": "", "observedGeneration": 1})
	}
	fields := map[string]any{}
	for i := range 40 {
		fields[fmt.Sprintf("f:field-%02d", i)] = map[string]any{".": map[string]any{}, "f:value": map[string]any{}}
	}
	writer := func(manager string) map[string]any {
		return map[string]any{"manager": manager, "operation": "Apply", "apiVersion": contract.Group + "/v1beta2", "time": "2030-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
	}
	return map[string]any{
		"metadata": map[string]any{
			"namespace": "default", "name": name, "uid": types.UID(name), "creationTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "123456", "generation": 3,
			"labels":      map[string]string{contract.ClusterNameLabel: "prod", contract.DeploymentNameLabel: deployment, contract.SetNameLabel: deployment + "-x7k2p", contract.TemplateHashLabel: "1234567890-x7k2p"},
			"annotations": map[string]string{v1.MachineClaimAnnotationKey: name, v1.MachineClaimUIDAnnotationKey: "uid-" + name, v1.MachineClusterAnnotationKey: "this-cluster"},
			"finalizers":  []string{"machine.cluster.x-k8s.io"}, "managedFields": []any{writer("manager"), writer("capi-machineset"), writer("karpenter")},
			"ownerReferences": []any{map[string]any{"apiVersion": contract.Group + "/v1beta2", "kind": "MachineSet", "name": deployment + "-x7k2p", "uid": deployment, "controller": true}},
		},
		"spec": map[string]any{"clusterName": "prod", "version": "v1.36.3", "providerID": "fake://" + name,
			"bootstrap":         map[string]any{"configRef": map[string]any{"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}, "dataSecretName": name},
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}},
		"status": map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": name}, "conditions": conditions,
			"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}, map[string]any{"type": "Hostname", "address": name}},
			"nodeInfo":  map[string]any{"architecture": "amd64", "bootID": name, "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.8.0", "kubeletVersion": "v1.36.3", "machineID": name, "osImage": "Ubuntu 24.04 LTS", "systemUUID": name}},
	}
}
