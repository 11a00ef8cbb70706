package api_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	autoscalingv1beta1 "tenon.sh/api/autoscalingv1beta1"
	awsv1 "tenon.sh/api/awsv1"
	"tenon.sh/api/azurev1beta1"
	"tenon.sh/api/clusterapiv1alpha1"
	kwokv1alpha1 "tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	v1alpha1 "tenon.sh/api/v1alpha1"
)

// checkTyped writes objects of the Go types with only the mandatory fields, and reads them back into the Go types.
func checkTyped(t *testing.T, s server) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1alpha1.AddToScheme, kwokv1alpha1.AddToScheme, autoscalingv1beta1.AddToScheme, awsv1.AddToScheme, clusterapiv1alpha1.AddToScheme, azurev1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	class := &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	meta := metav1.ObjectMeta{Name: "typed"}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
	objects := []runtime.Object{
		&v1.NodePool{ObjectMeta: meta, Spec: v1.NodePoolSpec{Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{
			NodeClassRef: class, Requirements: []v1.Requirement{}, Taints: []v1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		}}}},
		&v1.NodeClaim{ObjectMeta: meta, Spec: v1.NodeClaimSpec{
			NodeClassRef: class, Requirements: []v1.Requirement{}, Resources: v1.ResourceRequirements{Requests: requests},
		}},
		&v1alpha1.NodeOverlay{ObjectMeta: meta, Spec: v1alpha1.NodeOverlaySpec{Requirements: []v1alpha1.Requirement{}}},
		&kwokv1alpha1.KWOKNodeClass{ObjectMeta: meta},
		&clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: meta, Spec: clusterapiv1alpha1.ClusterAPINodeClassSpec{
			Prices: []clusterapiv1alpha1.Price{{InstanceType: "metal-1", Price: "0.35"}},
		}},
		&awsv1.EC2NodeClass{ObjectMeta: meta, Spec: awsv1.EC2NodeClassSpec{
			Role: "nodes", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms: []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}}, SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Name: "nodes"}},
			Kubelet: &runtime.RawExtension{Raw: []byte(`{"some":{"deep":["thing",{"n":1}]}}`)},
		}},
		&azurev1beta1.AKSNodeClass{ObjectMeta: meta, Spec: azurev1beta1.AKSNodeClassSpec{
			Kubelet: &azurev1beta1.KubeletConfiguration{FailSwapOn: new(false)}, GPU: &azurev1beta1.GPU{}, LinuxOSConfig: &azurev1beta1.LinuxOSConfig{SwapFileSize: "1Gi"},
		}},
		&autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: "default"}},
	}
	for _, object := range objects {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(kinds[0])
		stored, err := s.read(obj)
		if err != nil {
			t.Errorf("%s: %v", kinds[0].Kind, err)
			continue
		}
		back, err := scheme.New(kinds[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, back); err != nil {
			t.Errorf("%s: %v", kinds[0].Kind, err)
			continue
		}
		checkFilledIn(t, back)
	}
}

// checkFilledIn checks the fields that the server added to the smallest objects.
func checkFilledIn(t *testing.T, object runtime.Object) {
	switch o := object.(type) {
	case *v1.NodePool:
		if o.Spec.Disruption.ConsolidationPolicy != v1.WhenEmptyOrUnderutilized || len(o.Spec.Disruption.Budgets) != 1 {
			t.Errorf("disruption %+v", o.Spec.Disruption)
		}
		if o.Spec.Disruption.ConsolidateAfter.Duration != nil || o.Spec.Template.Spec.ExpireAfter.Duration != nil {
			t.Error("a duration left empty in Go is Never, also after it was stored")
		}
		if o.Status.Nodes == nil || *o.Status.Nodes != 0 {
			t.Errorf("status.nodes %v, want 0", o.Status.Nodes)
		}
	case *v1.NodeClaim:
		if got := o.Spec.Resources.Requests.Cpu().String(); got != "1500m" {
			t.Errorf("cpu request %s", got)
		}
	case *kwokv1alpha1.KWOKNodeClass:
		if !v1.IsTrue(o, v1.ConditionReady) {
			t.Errorf("status %+v, want Ready", o.Status)
		}
	case *clusterapiv1alpha1.ClusterAPINodeClass:
		if o.Spec.DriftPolicy != clusterapiv1alpha1.DriftReplace || o.Spec.Prices[0].CapacityType != v1.CapacityTypeOnDemand {
			t.Errorf("spec %+v", o.Spec)
		}
	case *awsv1.EC2NodeClass:
		if m := o.Spec.MetadataOptions; m == nil || *m.HTTPTokens != "required" || *m.HTTPPutResponseHopLimit != 1 {
			t.Errorf("metadata options %+v", m)
		}
		if got := string(o.Spec.Kubelet.Raw); got != `{"some":{"deep":["thing",{"n":1}]}}` {
			t.Errorf("kubelet %s", got)
		}
	case *azurev1beta1.AKSNodeClass:
		k := o.Spec.Kubelet
		if o.Spec.ImageFamily != azurev1beta1.FamilyUbuntu || *o.Spec.OSDiskSizeGB != 128 || o.Spec.GPU.Mode != "Driver" || !*k.CPUCFSQuota || k.CPUCFSQuotaPeriod.Duration != 100*time.Millisecond {
			t.Errorf("spec %+v, kubelet %+v", o.Spec, k)
		}
	case *autoscalingv1beta1.CapacityBuffer:
		if o.Spec.ProvisioningStrategy == nil || *o.Spec.ProvisioningStrategy != autoscalingv1beta1.ActiveCapacity {
			t.Errorf("strategy %v", o.Spec.ProvisioningStrategy)
		}
	}
}
