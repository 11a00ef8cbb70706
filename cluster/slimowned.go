package cluster

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// This file reduces the objects that pods refer to. A Deployment may have ten old ReplicaSets, each with a whole pod template.
// Therefore the kept fields are listed one by one.

// barely returns the metadata of an object of which only name, owner and age matter.
func barely(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences,
	}
}

func slimNamespace(n *corev1.Namespace) {
	labels, annotations := n.Labels, n.Annotations
	*n = corev1.Namespace{TypeMeta: n.TypeMeta, ObjectMeta: barely(n.ObjectMeta)}
	n.Labels = labels
	for _, key := range []string{v1.PauseAnnotationKey, v1.PauseReasonAnnotationKey} {
		if value, ok := annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
		}
	}
}

func slimService(s *corev1.Service) {
	selector := s.Spec.Selector
	*s = corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: barely(s.ObjectMeta)}
	s.Spec.Selector = selector
}

func slimReplicaSet(r *appsv1.ReplicaSet) {
	template := slimTemplate(r.Spec.Replicas, &r.Spec.Template)
	if len(r.OwnerReferences) == 0 {
		template = r.Spec.Template
		slimBufferTemplate(&template)
	}
	*r = appsv1.ReplicaSet{
		TypeMeta: r.TypeMeta, ObjectMeta: barely(r.ObjectMeta),
		Spec:   appsv1.ReplicaSetSpec{Selector: r.Spec.Selector, Replicas: r.Spec.Replicas, Template: template},
		Status: appsv1.ReplicaSetStatus{Conditions: r.Status.Conditions}, // few have any: the conditions of a ReplicaSet that cannot create pods
	}
}

func slimStatefulSet(s *appsv1.StatefulSet) {
	slimBufferTemplate(&s.Spec.Template)
	*s = appsv1.StatefulSet{
		TypeMeta: s.TypeMeta, ObjectMeta: barely(s.ObjectMeta),
		Spec: appsv1.StatefulSetSpec{Selector: s.Spec.Selector, Replicas: s.Spec.Replicas, Template: s.Spec.Template,
			UpdateStrategy: slimUpdateStrategy(s.Spec.UpdateStrategy), Ordinals: s.Spec.Ordinals},
		Status: appsv1.StatefulSetStatus{UpdateRevision: s.Status.UpdateRevision},
	}
}

// slimUpdateStrategy keeps the fields that decide which pods are created from an earlier revision.
func slimUpdateStrategy(s appsv1.StatefulSetUpdateStrategy) appsv1.StatefulSetUpdateStrategy {
	out := appsv1.StatefulSetUpdateStrategy{Type: s.Type}
	if s.RollingUpdate != nil && ptr.Deref(s.RollingUpdate.Partition, 0) != 0 {
		out.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: s.RollingUpdate.Partition}
	}
	return out
}

// slimDeployment and slimPodTemplate keep the fields from which CapacityBuffers and ProvisioningRequests make pods.
func slimDeployment(d *appsv1.Deployment) {
	slimBufferTemplate(&d.Spec.Template)
	*d = appsv1.Deployment{
		TypeMeta: d.TypeMeta, ObjectMeta: barely(d.ObjectMeta),
		Spec: appsv1.DeploymentSpec{Selector: d.Spec.Selector, Replicas: d.Spec.Replicas, Template: d.Spec.Template},
	}
}

func slimPodTemplate(t *corev1.PodTemplate) {
	slimBufferTemplate(&t.Template)
	*t = corev1.PodTemplate{TypeMeta: t.TypeMeta, ObjectMeta: barely(t.ObjectMeta), Template: t.Template}
}

func slimBufferTemplate(t *corev1.PodTemplateSpec) {
	t.ObjectMeta = metav1.ObjectMeta{Labels: t.Labels}
	slimPodSpec(&t.Spec)
	t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount = "", ""
}

func slimReplicationController(r *corev1.ReplicationController) {
	spec := corev1.ReplicationControllerSpec{Selector: r.Spec.Selector, Replicas: r.Spec.Replicas}
	if r.Spec.Template != nil {
		spec.Template = new(slimTemplate(r.Spec.Replicas, r.Spec.Template))
	}
	*r = corev1.ReplicationController{TypeMeta: r.TypeMeta, ObjectMeta: barely(r.ObjectMeta), Spec: spec}
}

// slimTemplate keeps the fields that decide the requests of the template's pods, if the owner wants any pods.
func slimTemplate(replicas *int32, t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	if replicas != nil && *replicas == 0 {
		return corev1.PodTemplateSpec{}
	}
	requests := func(list []corev1.Container) []corev1.Container {
		out := make([]corev1.Container, len(list))
		for i := range list {
			out[i] = corev1.Container{Name: list[i].Name, Resources: list[i].Resources}
			out[i].Resources.Claims = nil
		}
		return out
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: requests(t.Spec.Containers), InitContainers: requests(t.Spec.InitContainers), Resources: t.Spec.Resources,
	}}
}

func slimDeviceClass(c *resourcev1.DeviceClass) {
	name, selectors := c.Spec.ExtendedResourceName, c.Spec.Selectors
	*c = resourcev1.DeviceClass{TypeMeta: c.TypeMeta, ObjectMeta: barely(c.ObjectMeta)}
	c.Spec.ExtendedResourceName, c.Spec.Selectors = name, selectors
}

// slimResourceClaim removes the configuration for drivers, and the drivers' reports about devices.
func slimResourceClaim(c *resourcev1.ResourceClaim) {
	c.ObjectMeta = barely(c.ObjectMeta)
	c.Spec.Devices.Config, c.Status.Devices = nil, nil
	if a := c.Status.Allocation; a != nil {
		a.Devices.Config = nil
	}
}

// slimResourceClaimTemplate keeps the requests of claims made from the template.
func slimResourceClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	t.ObjectMeta = barely(t.ObjectMeta)
	t.Spec = resourcev1.ResourceClaimTemplateSpec{Spec: t.Spec.Spec}
	t.Spec.Spec.Devices.Config = nil
}

func slimStorageClass(c *storagev1.StorageClass) {
	slimMeta(c)
	keepVolumeAnnotations(&c.ObjectMeta)
	c.Parameters, c.MountOptions = nil, nil
}

// slimVolume keeps the kind of a volume's source, which determines the volume's driver.
func slimVolume(v *corev1.PersistentVolume) {
	slimMeta(v)
	keepVolumeAnnotations(&v.ObjectMeta)
	v.Spec.MountOptions = nil
	if csi := v.Spec.CSI; csi != nil {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	v.Status = corev1.PersistentVolumeStatus{Phase: v.Status.Phase}
}

func slimVolumeClaim(c *corev1.PersistentVolumeClaim) {
	slimMeta(c)
	keepVolumeAnnotations(&c.ObjectMeta)
	c.Spec.DataSource, c.Spec.DataSourceRef = nil, nil
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase}
}

func slimStorageCapacity(c *storagev1.CSIStorageCapacity) {
	slimMeta(c)
	for _, q := range []*resource.Quantity{c.Capacity, c.MaximumVolumeSize} {
		if q != nil {
			list := corev1.ResourceList{corev1.ResourceStorage: *q}
			kube.Countable(list)
			*q = list[corev1.ResourceStorage]
		}
	}
}

// keepVolumeAnnotations keeps the annotations by which the volume controllers and kube-scheduler communicate.
func keepVolumeAnnotations(m *metav1.ObjectMeta) {
	for key := range m.Annotations {
		domain, _, _ := strings.Cut(key, "/")
		if !strings.HasSuffix(domain, "kubernetes.io") || domain == "kubectl.kubernetes.io" {
			delete(m.Annotations, key)
		}
	}
}

func slimVolumeAttachment(a *storagev1.VolumeAttachment) {
	slimMeta(a)
	a.Annotations = nil
	a.Status = storagev1.VolumeAttachmentStatus{Attached: a.Status.Attached, AttachError: a.Status.AttachError, DetachError: a.Status.DetachError}
}
