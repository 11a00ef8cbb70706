package cluster_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// named returns metadata with many parts that affect no decision.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: "uid-keep", ResourceVersion: "7",
		Labels:          map[string]string{"team": "a"},
		Annotations:     map[string]string{"example.com/note": "drop"},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "drop"}},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "keep-owner"}},
	}
}

func slimmed(t *testing.T, object client.Object) string {
	t.Helper()
	options := cluster.CacheOptions()
	cut := options.DefaultTransform
	for kind, of := range options.ByObject {
		if reflect.TypeOf(kind) == reflect.TypeOf(object) && of.Transform != nil {
			cut = of.Transform
		}
	}
	if _, err := cut(object); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Texts that must stay contain keep, texts that must be removed contain drop.
func TestSlimObjectsKeepWhatDecisionsNeed(t *testing.T) {
	t.Parallel()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "keep-selector"}}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "drop", Containers: []corev1.Container{{
		Name: "keep-container", Image: "drop", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"keep-requests": resource.MustParse("1")}},
	}}}}
	placed := *template.DeepCopy()
	placed.Labels, placed.Annotations, placed.Spec.NodeSelector = map[string]string{"app": "keep-label"}, map[string]string{"a": "drop"}, map[string]string{"a": "keep-node"}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	binding := named("keep-name")
	binding.Annotations["pv.kubernetes.io/bind-completed"] = "keep-binding"
	for _, c := range []struct {
		object client.Object
		keep   string
	}{
		{&corev1.Pod{ObjectMeta: named("keep-name"), Spec: corev1.PodSpec{NodeName: "keep-node", ServiceAccountName: "keep-account", DNSConfig: &corev1.PodDNSConfig{Searches: []string{"drop"}},
			Containers: []corev1.Container{{Name: "keep-container", Image: "drop"}}}, Status: corev1.PodStatus{PodIP: "keep-ip", Conditions: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Reason: "drop"}, {Type: corev1.PodScheduled, Reason: "keep-reason"},
			{Type: corev1.PodReady, Reason: "keep-ready"}, {Type: corev1.PodResizePending, Reason: "keep-resize"}, {Type: corev1.ContainersReady, Reason: "keep-containers"}}}},
			`keep-name keep-owner keep-node keep-account keep-ip keep-container keep-reason keep-ready keep-resize keep-containers`},
		{&appsv1.ReplicaSet{ObjectMeta: named("keep-name"), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template, Replicas: ptr.To(int32(3))}},
			`keep-name keep-selector keep-owner uid-keep "replicas":3 keep-container keep-requests`},
		{&appsv1.StatefulSet{ObjectMeta: named("keep-name"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "drop",
			Ordinals:             &appsv1.StatefulSetOrdinals{Start: 2},
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: "keep-strategy", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(int32(3))}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "drop"}}}}, Status: appsv1.StatefulSetStatus{CurrentRevision: "drop", UpdateRevision: "keep-revision"}},
			`keep-name keep-selector keep-requests keep-strategy "partition":3 "start":2 keep-revision`},
		{&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "keep-name"}, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: placed}}, `keep-name keep-label keep-node keep-requests`},
		{&appsv1.Deployment{ObjectMeta: named("keep-name"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: placed, Replicas: ptr.To(int32(3)),
			Strategy: appsv1.DeploymentStrategy{Type: "drop"}}}, `keep-name keep-label keep-node keep-requests "replicas":3`},
		{&corev1.PodTemplate{ObjectMeta: named("keep-name"), Template: placed}, `keep-name keep-label keep-node keep-requests`},
		{&corev1.ReplicationController{ObjectMeta: named("keep-name"), Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels, Template: &template}},
			`keep-name keep-selector keep-requests`},
		{&corev1.Service{ObjectMeta: named("keep-name"), Spec: corev1.ServiceSpec{Selector: selector.MatchLabels, ExternalName: "drop"}}, `keep-name keep-selector`},
		{&corev1.Namespace{ObjectMeta: named("keep-name"), Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"drop"}}}, `keep-name "team":"a"`},
		{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", Annotations: map[string]string{"tenon.sh/pause": "keep-pause", "other": "drop"}}},
			`keep-name keep-pause`},
		{&storagev1.StorageClass{ObjectMeta: named("keep-name"), Provisioner: "keep-driver", Parameters: map[string]string{"drop": "drop"},
			MountOptions: []string{"drop"}, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}, `keep-name keep-driver WaitForFirstConsumer`},
		{&corev1.PersistentVolume{ObjectMeta: binding, Spec: corev1.PersistentVolumeSpec{Capacity: size, StorageClassName: "keep-class", MountOptions: []string{"drop"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "keep-driver", VolumeHandle: "keep-handle",
				VolumeAttributes: map[string]string{"drop": "drop"}, NodeStageSecretRef: &corev1.SecretReference{Name: "drop"}}}},
			Status: corev1.PersistentVolumeStatus{Phase: "keep-phase", Message: "drop"}},
			`keep-name keep-class keep-driver keep-handle keep-phase keep-binding 1Gi "team":"a"`},
		{&corev1.PersistentVolumeClaim{ObjectMeta: binding, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "keep-volume", StorageClassName: ptr.To("keep-class"),
			DataSource: &corev1.TypedLocalObjectReference{Name: "drop"}}, Status: corev1.PersistentVolumeClaimStatus{Phase: "keep-phase"}},
			`keep-name keep-volume keep-class keep-phase keep-binding`},
		{&storagev1.VolumeAttachment{ObjectMeta: named("keep-name"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "keep-node", Attacher: "keep-driver"},
			Status: storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"drop": "drop"}}}, `keep-name keep-node keep-driver "attached":true`},
		{&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", CreationTimestamp: metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}, `keep-name 2026-01-02T03:04:05Z`},
		{&resourcev1.DeviceClass{ObjectMeta: named("keep-name"), Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("keep-resource"),
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "keep-selector"}}}}}, `keep-name keep-resource keep-selector`},
		{&resourcev1.ResourceClaim{ObjectMeta: named("keep-name"), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "keep-request"}}, Config: []resourcev1.DeviceClaimConfiguration{{Requests: []string{"drop"}}}}},
			Status: resourcev1.ResourceClaimStatus{Devices: []resourcev1.AllocatedDeviceStatus{{Driver: "drop"}}, Allocation: &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Device: "keep-device"}},
					Config: []resourcev1.DeviceAllocationConfiguration{{Requests: []string{"drop"}}}}}}}, `keep-name keep-owner keep-request keep-device`},
		{&resourcev1.ResourceClaimTemplate{ObjectMeta: named("keep-name"), Spec: resourcev1.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "drop"}}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "keep-request"}}, Config: []resourcev1.DeviceClaimConfiguration{{Requests: []string{"drop"}}}}}}},
			`keep-name keep-request`},
		{&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "drop"}}},
			Spec: resourcev1.ResourceSliceSpec{Driver: "keep-driver", Devices: []resourcev1.Device{{Name: "keep-device"}}}}, `keep-name keep-driver keep-device`},
		{&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "drop"}}},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "keep-driver", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(25))}}}}},
			`keep-name keep-driver "count":25`},
		{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "drop"}}},
			Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}}, `keep-name "storageCapacity":true`},
		{&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "keep-name", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "drop"}}},
			StorageClassName: "keep-class", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "keep-node"}},
			Capacity: ptr.To(resource.MustParse("7Gi"))}, `keep-name keep-class keep-node 7Gi`},
	} {
		got := slimmed(t, c.object)
		for _, want := range strings.Fields(c.keep) {
			if !strings.Contains(got, want) {
				t.Errorf("%T has lost %s: %s", c.object, want, got)
			}
		}
		if strings.Contains(got, "drop") {
			t.Errorf("%T keeps what nobody needs: %s", c.object, got)
		}
	}
}

// Numbers that the API server accepts, but whose arithmetic would take minutes, do not reach the engine.
func TestNobodysNumbersKeepTheEngineBusy(t *testing.T) {
	t.Parallel()
	list := func() corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse("1e999999999"), "memory": resource.MustParse("12.5e999999999")}
	}
	for _, object := range []client.Object{
		&v1.NodePool{Spec: v1.NodePoolSpec{Limits: v1.Limits(list())}},
		&v1alpha1.NodeOverlay{Spec: v1alpha1.NodeOverlaySpec{Capacity: list()}},
		&autoscalingv1beta1.CapacityBuffer{Spec: autoscalingv1beta1.CapacityBufferSpec{Limits: list()}},
	} {
		if got := slimmed(t, object); strings.Contains(got, "e9") || !strings.Contains(got, "cpu") {
			t.Errorf("%T: %s", object, got)
		}
	}
}

// If a Snapshot has a list of a kind and Snapshot does not fill it, the kind would be missing in all decisions.
func TestSnapshotHoldsEveryKind(t *testing.T) {
	t.Parallel()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	pool := clustertest.Pool("general")
	pool.Annotations = map[string]string{v1.BudgetTimeZoneAnnotationKey: "Europe/Zurich"}
	claim, node := clustertest.Machine(pool, "general-a", metav1.Now().Time)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Pending("web", "1"),
		&appsv1.DaemonSet{ObjectMeta: meta("a")}, &policyv1.PodDisruptionBudget{ObjectMeta: meta("a")}, &corev1.LimitRange{ObjectMeta: meta("a")}, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.PersistentVolumeClaim{ObjectMeta: meta("a")},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &storagev1.CSIStorageCapacity{ObjectMeta: meta("a")},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.Service{ObjectMeta: meta("a")}, &appsv1.ReplicaSet{ObjectMeta: meta("a")}, &appsv1.StatefulSet{ObjectMeta: meta("a")},
		&corev1.ReplicationController{ObjectMeta: meta("a")}, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&resourcev1.ResourceClaim{ObjectMeta: meta("a")}, &resourcev1.ResourceClaimTemplate{ObjectMeta: meta("a")}, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&autoscalingv1beta1.CapacityBuffer{ObjectMeta: meta("a")}, &corev1.PodTemplate{ObjectMeta: meta("a")},
		&appsv1.Deployment{ObjectMeta: meta("a")}, &corev1.ResourceQuota{ObjectMeta: meta("a")}, &autoscalingv1.ProvisioningRequest{ObjectMeta: meta("a")}, &schedulingv1alpha3.PodGroup{ObjectMeta: meta("a")})
	config := w.Cluster.Config
	config.Overlays, config.Buffers, config.Requests, config.NodeOverheadPrice = true, true, true, 0.01
	config.Commitments = func() []engine.Commitment { return []engine.Commitment{{Name: "plan", AmountPerHour: 1}} }
	config.Selectors = func([]string, *device.Shape) []device.Answer { return nil }
	config.ScaleUps = cluster.ScaleUpsFrom(eventSource{[]corev1.Event{
		scaleUpEvent("a", "pod-web", "cluster-autoscaler", "pod triggered scale-up: [{gpu 1->2 (max: 10)}]", w.Clock.Now()),
	}}, time.Minute)
	config.ScaleUps.Listen(w, w.Clock)
	w.Cluster = cluster.New(config)
	s, err := w.Cluster.Snapshot(w)
	w.Must(err)
	v := reflect.ValueOf(*s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() || v.Field(i).Kind() == reflect.Slice && v.Field(i).Len() != 1 {
			t.Errorf("Snapshot.%s does not hold the one object that there is", v.Type().Field(i).Name)
		}
	}
}
