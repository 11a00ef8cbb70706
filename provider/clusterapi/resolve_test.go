package clusterapi_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

// says resolves the class, and returns its problem and the message of the condition about MachineDeployments.
func (w *world) says(t *testing.T) (problem, message string) {
	t.Helper()
	problem, err := w.provider.Resolve(t.Context(), w.classRef())
	if err != nil {
		t.Fatal(err)
	}
	condition := v1.GetCondition(w.class, clusterapiv1alpha1.ConditionMachineDeploymentsReady)
	if condition == nil || (condition.Status == metav1.ConditionTrue) != (problem == "") {
		t.Errorf("problem %q, condition %+v", problem, condition)
	}
	return problem, condition.Message
}

func TestAClassSaysWhatItsMachineDeploymentsLack(t *testing.T) {
	t.Parallel()
	other := func(d *contract.MachineDeployment) { d.Spec.ClusterName = "staging" }
	for name, c := range map[string]struct {
		deployments      []*contract.MachineDeployment
		edit             func(t *testing.T, w *world)
		problem, message string
		count            int32
	}{
		"all is well":  {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1")}, nil, "", "", 1},
		"none":         {nil, nil, "no MachineDeployment has the label node.cluster.x-k8s.io/karpenter-member", "", 0},
		"not a member": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1", func(d *contract.MachineDeployment) { d.Labels = nil })}, nil, "no MachineDeployment has the label", "", 0},
		"two clusters": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1"), deployment("b", "small", "a", "0.1", other)}, nil, "clusters prod, staging are selected: say in spec.clusterName", "", 2},
		"one of two":   {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1"), deployment("b", "small", "a", "0.1", other)}, func(_ *testing.T, w *world) { w.class.Spec.ClusterName = "prod" }, "", "", 1},
		"by label": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1"), deployment("b", "small", "a", "0.1", func(d *contract.MachineDeployment) { d.Labels["team"] = "b" })}, func(_ *testing.T, w *world) {
			w.class.Spec.ScalableResourceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
		}, "", "", 1},
		"by namespace":  {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1")}, func(_ *testing.T, w *world) { w.class.Spec.Namespaces = []string{"elsewhere"} }, "no MachineDeployment", "", 0},
		"one is broken": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1"), deployment("b", "small", "a", "0.1", annotated(contract.CapacityPrefix+"memory", "16gb"))}, nil, "", `default/b: annotation capacity.cluster-autoscaler.kubernetes.io/memory is "16gb"`, 1},
		"all are":       {[]*contract.MachineDeployment{deployment("b", "small", "a", "0.1", annotated(contract.CapacityPrefix+"memory", "16gb"))}, nil, `default/b: annotation`, "", 0},
		"estimated":     {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1", func(d *contract.MachineDeployment) { delete(d.Annotations, contract.PriceAnnotation) })}, nil, "", "default/a: its price is estimated", 1},
		"both scale it": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1", annotated(contract.MinSizeAnnotation, "0"), annotated(contract.MaxSizeAnnotation, "9"))}, nil, "", "Cluster Autoscaler would scale it too", 1},
		"paused":        {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1", annotated(contract.PausedAnnotation, ""))}, nil, "", "default/a makes no machines now: the MachineDeployment is paused", 1},
		"ClusterClass sets replicas": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1", func(d *contract.MachineDeployment) {
			d.Labels[contract.TopologyOwnedLabel], d.Labels[contract.TopologyNameLabel] = "", "workers"
		})}, func(t *testing.T, w *world) {
			cluster := &contract.Cluster{}
			if err := w.management.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "prod"}, cluster); err != nil {
				t.Fatal(err)
			}
			cluster.Spec.Topology = &contract.Topology{Workers: contract.TopologyWorkers{MachineDeployments: []contract.TopologyMachineDeployment{{Name: "workers", Replicas: ptr.To[int32](3)}}}}
			if err := w.management.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		}, "", "Cluster prod sets its replicas", 1},
		"GitOps lowers replicas": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1")}, func(t *testing.T, w *world) {
			w.launch(t, w.newClaim(t, "c", nil, nil))
			w.change(t, "a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](0) })
		}, "", "spec.replicas is 0, and 1 of its Machines belong to NodeClaims: somebody else sets it", 1},
		"a node has less": {[]*contract.MachineDeployment{deployment("a", "large", "a", "0.1", revised)}, func(t *testing.T, w *world) {
			w.newNode(t, "old", "4", "1")
			w.newNode(t, "newest", "8", "2")
		}, "", "default/a: node newest has 8 of cpu, where 16 are said", 1},
		"a node of an older template has less": {[]*contract.MachineDeployment{deployment("a", "large", "a", "0.1", revised, annotated(contract.PausedAnnotation, ""))}, func(t *testing.T, w *world) {
			w.newNode(t, "old", "4", "1")
		}, "", "MachineDeployment default/a makes no machines now", 1},
		"Machines of nobody": {[]*contract.MachineDeployment{deployment("a", "small", "a", "0.1")}, func(t *testing.T, w *world) {
			w.launch(t, w.newClaim(t, "c", nil, nil))
			w.change(t, "a", func(d *contract.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
			w.settle(t)
		}, "", "2 of its Machines belong to no NodeClaim: the next one that is launched takes one, those that no pods run on go, and others get one if a NodePool could have started them; else they stay outside of every NodePool until their nodes are drained (kubectl drain)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.deployments...)
			if c.edit != nil {
				c.edit(t, w)
			}
			problem, message := w.says(t)
			if strings.Contains(message, "node old") {
				t.Errorf("message %q is about an older template", message)
			}
			if !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") || !strings.Contains(message, c.message) || w.class.Status.MachineDeployments != c.count {
				t.Errorf("problem %q, message %q, %d MachineDeployments", problem, message, w.class.Status.MachineDeployments)
			}
		})
	}
}

// revised changes a MachineDeployment to its second template.
func revised(d *contract.MachineDeployment) { d.Annotations[contract.RevisionAnnotation] = "2" }

// newNode makes a node of MachineDeployment a with a number of cores, with a Machine and a MachineSet of a revision of the template.
func (w *world) newNode(t *testing.T, name, cores, revision string) {
	t.Helper()
	labels := map[string]string{contract.DeploymentNameLabel: "a", contract.TemplateHashLabel: name}
	w.create(t, w.management, &contract.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Annotations: map[string]string{contract.RevisionAnnotation: revision}, Labels: labels,
	}})
	machine := &contract.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	machine.Spec.ProviderID, machine.Status.NodeRef.Name = "fake://"+name, name
	w.create(t, w.management, machine)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "fake://" + name}}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	w.create(t, w.workload, node)
}

func TestAClassStaysAsItWasUntilTheManagementClusterIsConnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("a", "small", "a", "0.1"))
	w.markReady(t)
	before := w.class.DeepCopy()
	w.starting.Store(true)
	if problem, err := w.provider.Resolve(t.Context(), w.classRef()); problem != "" || !errors.Is(err, clusterapi.ErrNotConnected) || !reflect.DeepEqual(w.class.Status, before.Status) {
		t.Errorf("problem %q, error %v, status %+v", problem, err, w.class.Status)
	}
}

func TestATaintedMachineDeploymentIsForClaimsThatHaveTheTaint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("db", "small", "a", "0.05", annotated(contract.CapacityPrefix+"taints", "dedicated=db:NoSchedule")), deployment("web", "small", "a", "0.10"))
	claim := w.newClaim(t, "db", nil, nil)
	claim.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	for from, claim := range map[string]*v1.NodeClaim{"db": claim, "web": w.newClaim(t, "web", nil, nil)} {
		if m := w.launch(t, claim); !strings.HasPrefix(string(m.ID), "fake://"+from+"-") {
			t.Errorf("claim %s got %s", claim.Name, m.ID)
		}
	}
}

func TestMachinesOfAnOlderTemplateHaveDriftedWhereClusterAPILeavesThem(t *testing.T) {
	t.Parallel()
	onDelete := func(d *contract.MachineDeployment) {
		d.Spec.Rollout = &contract.Rollout{Strategy: contract.Strategy{Type: "OnDelete"}}
		d.Annotations[contract.RevisionAnnotation] = "2"
	}
	rolling := func(d *contract.MachineDeployment) { d.Annotations[contract.RevisionAnnotation] = "2" }
	w := newWorld(t, deployment("kept", "small", "a", "0.1", onDelete), deployment("rolled", "small", "b", "0.1", rolling))
	for name, revision := range map[string]string{"kept-1": "1", "kept-2": "2", "rolled-1": "1", "rolled-2": "2"} {
		deployment, _, _ := strings.Cut(name, "-")
		w.create(t, w.management, &contract.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: map[string]string{contract.RevisionAnnotation: revision},
			Labels: map[string]string{contract.DeploymentNameLabel: deployment, contract.TemplateHashLabel: name},
		}})
	}
	for policy, want := range map[string]string{
		"": "kept-2 rolled-1 rolled-2", clusterapiv1alpha1.DriftReplace: "kept-2 rolled-1 rolled-2", clusterapiv1alpha1.DriftDefer: "kept-2 rolled-2", clusterapiv1alpha1.DriftIgnore: "",
	} {
		w.class.Spec.DriftPolicy = policy
		traits, err := w.provider.Traits(t.Context(), w.classRef())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]engine.Trait{}
		for _, trait := range traits {
			got[trait.Reason] = trait
		}
		if from := got["MachineDeploymentDrift"].Accepts; strings.Join(from, " ") != "default/kept default/rolled" {
			t.Errorf("%s: MachineDeployments %v", policy, from)
		}
		if template := got["MachineTemplateDrift"].Accepts; strings.Join(template, " ") != want {
			t.Errorf("%s: templates %v, want %s", policy, template, want)
		}
		if observed := got["MachineTemplateDrift"].Observed; observed != (policy == clusterapiv1alpha1.DriftDefer) {
			t.Errorf("%s: that a template is an older one is observed only: %v", policy, observed)
		}
	}
}
