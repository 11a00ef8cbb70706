package clusterapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

func TestAnExaminationSaysWhatClassesMakeOfTheirMachineDeployments(t *testing.T) {
	t.Parallel()
	owner := func(who string, how metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: who, Operation: how, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	w := newWorld(t, deployment("a", "small", "a", "0.1"), deployment("b", "small", "b", "0.1", annotated(contract.CapacityPrefix+"memory", "16gb")),
		deployment("c", "large", "c", "0.1", annotated(contract.MinSizeAnnotation, "0"), annotated(contract.MaxSizeAnnotation, "9"), func(d *contract.MachineDeployment) {
			d.Labels["for"] = "c"
			delete(d.Annotations, contract.PriceAnnotation)
		}))
	w.owners = []metav1.ManagedFieldsEntry{
		owner("kustomize-controller", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:replicas":{}}}`),
		owner("kubectl-create", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`),
		owner("helm", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:template":{}}}`),
	}
	class := func(name string, spec clusterapiv1alpha1.ClusterAPINodeClassSpec) provider.Class {
		out := w.classRef()
		out.Object = &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		return out
	}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{"for": "c"}}
	lines := examined(w.provider.Examine(t.Context(), []provider.Class{
		class("all", clusterapiv1alpha1.ClusterAPINodeClassSpec{}),
		class("c", clusterapiv1alpha1.ClusterAPINodeClassSpec{ScalableResourceSelector: only}),
		class("none", clusterapiv1alpha1.ClusterAPINodeClassSpec{ClusterName: "elsewhere"}),
	}))
	for _, want := range []string{
		"ok ClusterAPINodeClass all: machines can be made from default/a (small, zone a, on-demand, 2 cores, 4Gi of memory, 0.1000 USD per hour), default/c (large",
		`warning ClusterAPINodeClass all: MachineDeployment default/b: annotation capacity.cluster-autoscaler.kubernetes.io/memory is "16gb"`,
		"warning ClusterAPINodeClass c: MachineDeployment default/c: its price is estimated",
		"warning ClusterAPINodeClass c: MachineDeployment default/c has both size annotations: Cluster Autoscaler would scale it too",
		"problem ClusterAPINodeClass none: no MachineDeployment has the label",
		"warning MachineDeployment default/c: the ClusterAPINodeClasses all, c all select it",
		"problem MachineDeployment default/a: kustomize-controller applies spec.replicas",
	} {
		if !strings.Contains(lines, "\n"+want) {
			t.Errorf("it does not say %q:%s", want, lines)
		}
	}
	for _, not := range []string{"kubectl-create", "helm", "default/a: the ClusterAPINodeClasses", "ok ClusterAPINodeClass none"} {
		if strings.Contains(lines, not) {
			t.Errorf("it says %q:%s", not, lines)
		}
	}
}

func examined(findings []provider.Finding) string {
	var out strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&out, "\n%s %s: %s", f.Level, f.Object, f.Says)
	}
	return out.String()
}

func TestAnExaminationSaysInWhichVersionClusterAPIIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for versions, want := range map[string]string{
		"v1beta1 v1beta2": "\nok : it serves cluster.x-k8s.io in v1beta2\nproblem ClusterAPINodeClass default: no MachineDeployment",
		"v1beta1":         "\nwarning : it serves cluster.x-k8s.io in v1beta1 only, which later releases of Cluster API do not serve any more\nproblem ClusterAPINodeClass default: no MachineDeployment",
		"":                "\nproblem : it does not serve Cluster API in a form that can be read: it has no kinds of group cluster.x-k8s.io",
	} {
		listener := httptest.NewServer(&apiServer{versions: strings.Fields(versions), changed: make(chan struct{})})
		defer listener.Close()
		connection, err := clusterapi.NewConnection(&rest.Config{Host: listener.URL})
		if err != nil {
			t.Fatal(err)
		}
		got := examined(clusterapi.Examiner{Connection: connection, Client: w.workload}.Examine(t.Context(), []provider.Class{w.classRef()}))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", versions, got, want)
		}
	}
}
