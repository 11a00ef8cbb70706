package clusterapi_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

func TestAnExaminationSaysWhatClusterAutoscalerScalesToo(t *testing.T) {
	t.Parallel()
	both := func(d *contract.MachineDeployment) {
		d.Annotations[contract.MinSizeAnnotation], d.Annotations[contract.MaxSizeAnnotation] = "0", "9"
	}
	for name, c := range map[string]struct {
		flags string
		tied  []string
	}{
		"all with both annotations":  {"--v=4 --cloud-provider=clusterapi", []string{"both", "labelled"}},
		"flags with a space":         {"--cloud-provider clusterapi --node-group-auto-discovery clusterapi:team=a", []string{"labelled"}},
		"of a namespace and Cluster": {"--cloud-provider=clusterapi --node-group-auto-discovery=clusterapi:namespace=default,clusterName=prod", []string{"both", "labelled"}},
		"of another Cluster":         {"--cloud-provider=clusterapi --node-group-auto-discovery=clusterapi:clusterName=staging", nil},
		"of another namespace":       {"--cloud-provider=clusterapi --node-group-auto-discovery=clusterapi:namespace=ops,team=a", nil},
		"several discoveries":        {"--cloud-provider=clusterapi --node-group-auto-discovery=clusterapi:team=b --node-group-auto-discovery=clusterapi:team=a", []string{"labelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("both", "small", "a", "0.1", both), deployment("labelled", "small", "b", "0.1", both, func(d *contract.MachineDeployment) { d.Labels["team"] = "a" }),
				deployment("max", "small", "c", "0.1", annotated(contract.MaxSizeAnnotation, "9")),
				deployment("unselected", "small", "d", "0.1", both, func(d *contract.MachineDeployment) { delete(d.Labels, contract.MemberLabel) }))
			lines := examined(w.provider.ExamineBeside(t.Context(), []*appsv1.Deployment{autoscaler("cluster-autoscaler", c.flags), autoscaler("of-aws", "--cloud-provider=aws")}, w.classRef()))
			for _, key := range []string{"both", "labelled", "max", "unselected"} {
				want := "\nproblem MachineDeployment default/" + key + ": Deployment kube-system/cluster-autoscaler scales it too, by its size annotations, and ClusterAPINodeClass default selects it"
				if strings.Contains(lines, want) != slices.Contains(c.tied, key) {
					t.Errorf("of %s it should say so: %v:%s", key, slices.Contains(c.tied, key), lines)
				}
			}
			if strings.Contains(lines, "\nok Deployment kube-system/cluster-autoscaler: it scales no MachineDeployment") != (len(c.tied) == 0) || strings.Contains(lines, "of-aws") {
				t.Errorf("what it says of the autoscalers themselves:%s", lines)
			}
		})
	}
}

// autoscaler returns a Deployment of Cluster Autoscaler.
func autoscaler(name, flags string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "autoscaler", Command: []string{"/cluster-autoscaler"}, Args: strings.Fields(flags)}}
	return d
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
