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
	var out []Document
	var failed error
	add := func(apiVersion, kind string, object any) {
		text, err := json.Marshal(object)
		content := map[string]any{}
		if err == nil {
			err = json.Unmarshal(text, &content)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("convert a %s: %w", kind, err)
		}
		content["apiVersion"], content["kind"] = apiVersion, kind
		out = append(out, Document{Object: &unstructured.Unstructured{Object: content}})
	}
	for _, o := range s.Pods {
		add("v1", "Pod", o)
	}
	for _, o := range s.Nodes {
		add("v1", "Node", o)
	}
	for _, o := range s.DaemonSets {
		add("apps/v1", "DaemonSet", o)
	}
	for _, o := range s.PodDisruptionBudgets {
		add("policy/v1", "PodDisruptionBudget", o)
	}
	for _, o := range s.LimitRanges {
		add("v1", "LimitRange", o)
	}
	for _, o := range s.RuntimeClasses {
		add("node.k8s.io/v1", "RuntimeClass", o)
	}
	for _, o := range s.PersistentVolumes {
		add("v1", "PersistentVolume", o)
	}
	for _, o := range s.PersistentVolumeClaims {
		add("v1", "PersistentVolumeClaim", o)
	}
	for _, o := range s.StorageClasses {
		add("storage.k8s.io/v1", "StorageClass", o)
	}
	for _, o := range s.CSINodes {
		add("storage.k8s.io/v1", "CSINode", o)
	}
	for _, o := range s.CSIDrivers {
		add("storage.k8s.io/v1", "CSIDriver", o)
	}
	for _, o := range s.CSIStorageCapacities {
		add("storage.k8s.io/v1", "CSIStorageCapacity", o)
	}
	for _, o := range s.VolumeAttachments {
		add("storage.k8s.io/v1", "VolumeAttachment", o)
	}
	for _, o := range s.Namespaces {
		add("v1", "Namespace", o)
	}
	for _, o := range s.Services {
		add("v1", "Service", o)
	}
	for _, o := range s.ReplicaSets {
		add("apps/v1", "ReplicaSet", o)
	}
	for _, o := range s.StatefulSets {
		add("apps/v1", "StatefulSet", o)
	}
	for _, o := range s.ReplicationControllers {
		add("v1", "ReplicationController", o)
	}
	for _, o := range s.DeviceClasses {
		add("resource.k8s.io/v1", "DeviceClass", o)
	}
	for _, o := range s.ResourceClaims {
		add("resource.k8s.io/v1", "ResourceClaim", o)
	}
	for _, o := range s.ResourceClaimTemplates {
		add("resource.k8s.io/v1", "ResourceClaimTemplate", o)
	}
	for _, o := range s.ResourceSlices {
		add("resource.k8s.io/v1", "ResourceSlice", o)
	}
	for _, o := range s.NodePools {
		add(v1.GroupVersion.String(), "NodePool", o)
	}
	for _, o := range s.NodeOverlays {
		add(v1alpha1.GroupVersion.String(), "NodeOverlay", o)
	}
	for _, o := range s.CapacityBuffers {
		add(autoscalingv1beta1.GroupVersion.String(), "CapacityBuffer", o)
	}
	for _, o := range s.PodTemplates {
		add("v1", "PodTemplate", o)
	}
	for _, o := range s.Deployments {
		add("apps/v1", "Deployment", o)
	}
	for _, o := range s.ResourceQuotas {
		add("v1", "ResourceQuota", o)
	}
	for _, o := range s.ProvisioningRequests {
		add(autoscalingv1.GroupVersion.String(), "ProvisioningRequest", o)
	}
	for _, o := range s.PodGroups {
		add(schedulingv1alpha3.GroupVersion.String(), "PodGroup", o)
	}
	for _, o := range s.NodeClaims {
		add(v1.GroupVersion.String(), "NodeClaim", o)
	}
	return out, failed
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
