package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
)

// Write writes a snapshot as a file for Read: its objects sorted by kind and name, then its catalog.
func Write(out io.Writer, s *engine.Snapshot, opt engine.Options) error {
	documents, err := objectsOf(s)
	if err != nil {
		return err
	}
	return WriteDocuments(out, documents, engine.CatalogDocument{
		APIVersion: engine.CatalogAPIVersion, Kind: engine.CatalogKind, Time: s.Now, Options: opt, Classes: s.ListedClasses(),
		NodeOverheadPrice: s.NodeOverheadPrice, Commitments: s.Commitments, EarlierPasses: s.EarlierPasses, ExpectedPods: s.ExpectedPods, ScaleUps: s.ScaleUps,
		IgnoresClaims: s.Selectors == nil && concernsClaims(s),
	})
}

// concernsClaims reports whether the snapshot's plans depend on the handling of claims for devices.
func concernsClaims(s *engine.Snapshot) bool {
	return len(s.DeviceClasses)+len(s.ResourceClaims)+len(s.ResourceClaimTemplates)+len(s.ResourceSlices) > 0 ||
		slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 })
}

// WriteDocuments writes objects and a catalog as a snapshot file. It omits possible secrets; see Clean.
func WriteDocuments(out io.Writer, documents []Document, catalog engine.CatalogDocument) error {
	documents = slices.Clone(documents)
	slices.SortFunc(documents, func(a, b Document) int {
		return cmp.Or(cmp.Compare(a.Object.GetKind(), b.Object.GetKind()), cmp.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()),
			cmp.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	for _, d := range documents {
		Clean(d.Object)
		if err := writeYAML(out, d.Object.Object); err != nil {
			return fmt.Errorf("write %s %s: %w", d.Object.GetKind(), d.Object.GetName(), err)
		}
	}
	if err := writeYAML(out, catalog); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	return nil
}

func writeYAML(out io.Writer, object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "---\n%s", text)
	return err
}

// objectsOf converts the snapshot's objects, with apiVersion and kind.
func objectsOf(s *engine.Snapshot) ([]Document, error) {
	var d documents
	addAll(&d, "v1", "Pod", s.Pods)
	addAll(&d, "v1", "Node", s.Nodes)
	addAll(&d, "apps/v1", "DaemonSet", s.DaemonSets)
	addAll(&d, "policy/v1", "PodDisruptionBudget", s.PodDisruptionBudgets)
	addAll(&d, "v1", "LimitRange", s.LimitRanges)
	addAll(&d, "node.k8s.io/v1", "RuntimeClass", s.RuntimeClasses)
	addAll(&d, "v1", "PersistentVolume", s.PersistentVolumes)
	addAll(&d, "v1", "PersistentVolumeClaim", s.PersistentVolumeClaims)
	addAll(&d, "storage.k8s.io/v1", "StorageClass", s.StorageClasses)
	addAll(&d, "storage.k8s.io/v1", "CSINode", s.CSINodes)
	addAll(&d, "storage.k8s.io/v1", "CSIDriver", s.CSIDrivers)
	addAll(&d, "storage.k8s.io/v1", "CSIStorageCapacity", s.CSIStorageCapacities)
	addAll(&d, "storage.k8s.io/v1", "VolumeAttachment", s.VolumeAttachments)
	addAll(&d, "v1", "Namespace", s.Namespaces)
	addAll(&d, "v1", "Service", s.Services)
	addAll(&d, "apps/v1", "ReplicaSet", s.ReplicaSets)
	addAll(&d, "apps/v1", "StatefulSet", s.StatefulSets)
	addAll(&d, "v1", "ReplicationController", s.ReplicationControllers)
	addAll(&d, "resource.k8s.io/v1", "DeviceClass", s.DeviceClasses)
	addAll(&d, "resource.k8s.io/v1", "ResourceClaim", s.ResourceClaims)
	addAll(&d, "resource.k8s.io/v1", "ResourceClaimTemplate", s.ResourceClaimTemplates)
	addAll(&d, "resource.k8s.io/v1", "ResourceSlice", s.ResourceSlices)
	addAll(&d, v1.GroupVersion.String(), "NodePool", s.NodePools)
	addAll(&d, v1alpha1.GroupVersion.String(), "NodeOverlay", s.NodeOverlays)
	addAll(&d, autoscalingv1beta1.GroupVersion.String(), "CapacityBuffer", s.CapacityBuffers)
	addAll(&d, "v1", "PodTemplate", s.PodTemplates)
	addAll(&d, "apps/v1", "Deployment", s.Deployments)
	addAll(&d, "v1", "ResourceQuota", s.ResourceQuotas)
	addAll(&d, autoscalingv1.GroupVersion.String(), "ProvisioningRequest", s.ProvisioningRequests)
	addAll(&d, schedulingv1alpha3.GroupVersion.String(), "PodGroup", s.PodGroups)
	addAll(&d, v1.GroupVersion.String(), "NodeClaim", s.NodeClaims)
	return d.list, d.failed
}

// documents are objects as they are written, with the first error.
type documents struct {
	list   []Document
	failed error
}

// addAll adds the objects of one kind.
func addAll[T any](d *documents, apiVersion, kind string, objects []T) {
	for _, o := range objects {
		text, err := json.Marshal(o)
		content := map[string]any{}
		if err == nil {
			err = json.Unmarshal(text, &content)
		}
		if err != nil && d.failed == nil {
			d.failed = fmt.Errorf("convert a %s: %w", kind, err)
		}
		content["apiVersion"], content["kind"] = apiVersion, kind
		d.list = append(d.list, Document{Object: &unstructured.Unstructured{Object: content}})
	}
}

// Clean removes parts of an object that no decision depends on and that may be secret: environments, arguments and commands of containers,
// probes and hooks with commands, user data of node classes, parameters and attributes of volumes, the last applied configuration and the
// managed fields. It removes most of the template of objects that make pods, but keeps the selector and the fields about requests and
// scheduling. The pods themselves are in the snapshot, but may have been resized since.
func Clean(u *unstructured.Unstructured) {
	u.SetManagedFields(nil)
	if annotations := u.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetAnnotations(annotations)
	}
	for _, path := range secretFields(u.GetKind()) {
		unstructured.RemoveNestedField(u.Object, strings.Split(path, ".")...)
	}
	cleanContainers(u.Object)
	cleanTemplate(u)
}

// cleanTemplate keeps, in the template of an object that makes pods, only the fields about requests and scheduling.
func cleanTemplate(u *unstructured.Unstructured) {
	spec, found, _ := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if kind := u.GetKind(); !found || kind != "Deployment" && kind != "ReplicaSet" && kind != "StatefulSet" && kind != "ReplicationController" {
		return
	}
	kept := map[string]any{}
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := spec[key].([]any)
		var out []any
		for _, element := range list {
			if c, ok := element.(map[string]any); ok {
				out = append(out, only(c, "name", "resources", "ports", "restartPolicy"))
			}
		}
		if out != nil {
			kept[key] = out
		}
	}
	maps.Copy(kept, only(spec, "resources", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "overhead", "schedulerName", "priorityClassName"))
	if kept["containers"] == nil {
		unstructured.RemoveNestedField(u.Object, "spec", "template")
		return
	}
	template := map[string]any{"spec": kept}
	if labels, found, _ := unstructured.NestedMap(u.Object, "spec", "template", "metadata", "labels"); found {
		template["metadata"] = map[string]any{"labels": labels}
	}
	_ = unstructured.SetNestedField(u.Object, template, "spec", "template") // the path consists of maps
}

// only returns a copy of the fields with these keys.
func only(fields map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		if value, found := fields[key]; found {
			out[key] = value
		}
	}
	return out
}

// secretFields returns the fields of a kind that are removed completely.
func secretFields(kind string) []string {
	switch kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		return []string{"spec.volumeClaimTemplates"}
	case "PersistentVolume":
		return []string{"spec.csi.volumeAttributes", "spec.mountOptions"}
	case "StorageClass":
		return []string{"parameters", "mountOptions"}
	case "DeviceClass":
		return []string{"spec.config"}
	case "ResourceClaim":
		return []string{"spec.devices.config", "status.allocation.devices.config", "status.devices"}
	case "ResourceClaimTemplate":
		return []string{"spec.spec.devices.config"}
	}
	if strings.HasSuffix(kind, "NodeClass") {
		return []string{"spec.userData"}
	}
	return nil
}

// cleanContainers cleans lists of containers at any depth, so that it covers templates too.
func cleanContainers(object map[string]any) {
	for key, value := range object {
		switch child := value.(type) {
		case map[string]any:
			cleanContainers(child)
		case []any:
			for _, element := range child {
				if fields, ok := element.(map[string]any); ok {
					if key == "containers" || key == "initContainers" || key == "ephemeralContainers" {
						cleanContainer(fields)
					}
					cleanContainers(fields)
				}
			}
		}
	}
}

func cleanContainer(fields map[string]any) {
	for _, key := range []string{"env", "envFrom", "args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
		delete(fields, key)
	}
}
