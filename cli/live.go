package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// liveOptions are the flags for reading a live cluster.
type liveOptions struct {
	kubeconfig string
	context    string // a context of the kubeconfig; empty for the current one
	leaderAddress
	// management selects the cluster with the MachineDeployments of Cluster API. If it is nil, the command has no flags for it: it reads the
	// MachineDeployments in this cluster if a class may select them.
	management *clusterAPIFlags
}

// catalogNone is the value of --catalog-url that switches the controller's catalog off.
const catalogNone = "none"

func (o *liveOptions) addFlags(flags *pflag.FlagSet) {
	defer heading(flags, "Flags of the cluster")()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty for the usual places")
	flags.StringVar(&o.context, "context", "", "context of the kubeconfig to use; empty for its current one")
	flags.StringVar(&o.catalogURL, "catalog-url", "", "where the controller serves its catalog, "+
		"https://host:port/snapshot/catalog; empty to look for the leader, none to do without")
	flags.StringVar(&o.controllerNamespace, "controller-namespace", "", "namespace of the controller's Lease; empty to look in kube-system and "+
		"where a service account may change all NodeClaims")
}

const runtimeClassKind, resourceGroup = "RuntimeClass", "resource.k8s.io"

// plural returns the plural of a kind's name.
func plural(kind string) string {
	if strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

// liveKind is a kind whose objects a live cluster's snapshot contains.
type liveKind struct {
	schema.GroupVersionResource
	kind     string
	optional bool // a cluster may lack the kind
	// forBuffers marks the kinds that are read only if CapacityBuffers or ProvisioningRequests refer to them. The list has those kinds
	// earlier.
	forBuffers bool
}

// liveKinds lists every kind that a decision depends on. Node classes are included only for people to read, because their meaning is in the
// catalog.
func liveKinds() []liveKind {
	of := func(group, version, resource, kind string, optional bool) liveKind {
		return liveKind{schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, kind, optional, false}
	}
	forBuffers := func(group, resource, kind string) liveKind {
		return liveKind{schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, kind, true, true}
	}
	return []liveKind{
		// Nodes are read before pods, so that a pod that is bound in between is counted twice and not never.
		of(v1.Group, "v1", "nodepools", "NodePool", true), // optional, because savings is for clusters without Karpenter too
		of(v1.Group, "v1", "nodeclaims", "NodeClaim", true),
		of(v1.Group, "v1alpha1", "nodeoverlays", overlayKind, true),
		of(autoscalingv1beta1.GroupVersion.Group, "v1beta1", "capacitybuffers", bufferKind, true),
		of(autoscalingv1.GroupVersion.Group, "v1", "provisioningrequests", requestKind, true),
		of(autoscalingv1.GroupVersion.Group, "v1beta1", "provisioningrequests", requestKind, true),
		forBuffers("", "podtemplates", "PodTemplate"),
		forBuffers("apps", "deployments", "Deployment"),
		forBuffers("", "resourcequotas", "ResourceQuota"),
		of("", "v1", "nodes", "Node", false),
		of("", "v1", "pods", "Pod", false),
		of("apps", "v1", "daemonsets", "DaemonSet", false),
		of("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", false),
		of("", "v1", "limitranges", "LimitRange", false),
		of("node.k8s.io", "v1", "runtimeclasses", runtimeClassKind, false),
		of("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", false),
		of("", "v1", "persistentvolumes", "PersistentVolume", false),
		of("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
		of("storage.k8s.io", "v1", "csinodes", "CSINode", false),
		of("storage.k8s.io", "v1", "csidrivers", "CSIDriver", false),
		of("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", false),
		of("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false),
		of("", "v1", "namespaces", "Namespace", false),
		of("", "v1", "services", "Service", false),
		of("apps", "v1", "replicasets", "ReplicaSet", false),
		of("apps", "v1", "statefulsets", "StatefulSet", false),
		of("", "v1", "replicationcontrollers", "ReplicationController", false),
		of(resourceGroup, "v1", "deviceclasses", "DeviceClass", true),
		of(resourceGroup, "v1", "resourceclaims", deviceClaimKind, true),
		of(resourceGroup, "v1", "resourceclaimtemplates", deviceTemplateKind, true),
		of(resourceGroup, "v1", "resourceslices", deviceSliceKind, true),
		of(schedulingv1alpha3.GroupVersion.Group, "v1alpha3", "podgroups", podGroupKind, true),
		of(schedulingv1alpha3.GroupVersion.Group, "v1alpha2", "podgroups", podGroupKind, true),
		of("karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", true),
		of("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", true),
		of("karpenter.azure.com", "v1beta1", "aksnodeclasses", "AKSNodeClass", true),
		of("karpenter.cluster.x-k8s.io", "v1alpha1", "clusterapinodeclasses", "ClusterAPINodeClass", true),
	}
}

// patience is the time limit of one request to a cluster.
const patience = 30 * time.Second

// config returns the client configuration for the cluster, with time limits.
func (o *liveOptions) config() (*rest.Config, error) {
	config, err := restConfig(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	config.Timeout = patience
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// documents reads the live cluster and its controller's catalog. It writes nothing to the cluster.
func (o *liveOptions) documents(ctx context.Context, notes *terminal) ([]scenario.Document, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	documents, err := liveObjects(ctx, config, notes)
	if err != nil {
		return nil, err
	}
	if !holds(documents, v1.Group, "NodePool") && o.catalogURL == "" { // without NodePools there is no work for a controller, and so no controller
		return o.withMachineDeployments(ctx, config, documents, notes)
	}
	catalog, err := o.catalog(ctx, config)
	if err != nil {
		notes.line("note: no catalog from the controller: %s", oneLine(err))
	}
	if catalog == nil {
		return o.withMachineDeployments(ctx, config, documents, notes)
	}
	documents = inForce(documents, catalog, notes)
	document, err := catalogDocument(catalog)
	return append(documents, document), err
}

// catalogDocument returns the catalog as a document. It converts by JSON, because the usual converter does not support numbers that are
// written as text. Hashes are written as text, because they are too large for JSON numbers.
func catalogDocument(catalog *engine.CatalogDocument) (scenario.Document, error) {
	text, err := json.Marshal(catalog)
	content := map[string]any{}
	if err = errors.Join(err, json.Unmarshal(text, &content)); err != nil {
		return scenario.Document{}, fmt.Errorf("read the catalog: %w", err)
	}
	return scenario.Document{Object: &unstructured.Unstructured{Object: content}}, nil
}

// withMachineDeployments adds the objects of Cluster API that describe machines for sale.
func (o *liveOptions) withMachineDeployments(ctx context.Context, config *rest.Config, documents []scenario.Document, notes *terminal) ([]scenario.Document, error) {
	from := o.management
	if from == nil {
		if !holds(documents, clusterapiv1alpha1.GroupVersion.Group, "ClusterAPINodeClass") {
			return documents, nil
		}
		from = &clusterAPIFlags{}
	}
	if err := from.check(); err != nil {
		return nil, err
	}
	management, err := from.managementConfig(config)
	if err != nil {
		return nil, err
	}
	management.Timeout = patience
	more, err := readMachineDeployments(ctx, management, notes)
	return append(documents, more...), err
}

const (
	overlayKind  = "NodeOverlay"
	bufferKind   = "CapacityBuffer"
	podGroupKind = "PodGroup"
	requestKind  = "ProvisioningRequest"

	deviceClaimKind    = "ResourceClaim"
	deviceTemplateKind = "ResourceClaimTemplate"
	deviceSliceKind    = "ResourceSlice"
)

// mayBeForbidden lists newer kinds. Users whose rights are older than the kind cannot read it, so the command goes on without it.
var mayBeForbidden = []string{overlayKind, bufferKind, podGroupKind, requestKind, runtimeClassKind, deviceClaimKind, deviceTemplateKind, deviceSliceKind}

// inForce drops NodeOverlays, CapacityBuffers, ProvisioningRequests and claims for devices if the controller ignores them, because its plans
// do not contain them.
func inForce(documents []scenario.Document, catalog *engine.CatalogDocument, notes *terminal) []scenario.Document {
	for _, x := range []struct {
		ignored     bool
		group, kind string
		why         string
	}{
		{catalog.IgnoresOverlays, v1.Group, overlayKind, "without the feature gate NodeOverlay"},
		{catalog.IgnoresBuffers, autoscalingv1beta1.GroupVersion.Group, bufferKind, "without the feature gate CapacityBuffer"},
		{catalog.IgnoresRequests, autoscalingv1.GroupVersion.Group, requestKind, "without the feature gate ProvisioningRequest"},
		{catalog.IgnoresClaims, resourceGroup, deviceClaimKind, "with --ignore-dra-requests"},
		{catalog.IgnoresClaims, resourceGroup, deviceTemplateKind, "with --ignore-dra-requests"},
		{catalog.IgnoresClaims, resourceGroup, deviceSliceKind, "with --ignore-dra-requests"},
	} {
		if !x.ignored {
			continue
		}
		before := len(documents)
		documents = slices.DeleteFunc(documents, func(d scenario.Document) bool { return isOf(d, x.group, x.kind) })
		if n := before - len(documents); n > 0 {
			notes.line("note: %d %ss left out: the controller runs %s", n, x.kind, x.why)
		}
	}
	return documents
}

// holds reports whether a document has the kind.
func holds(documents []scenario.Document, group, kind string) bool {
	return slices.ContainsFunc(documents, func(d scenario.Document) bool { return isOf(d, group, kind) })
}

func isOf(d scenario.Document, group, kind string) bool {
	return d.Object.GroupVersionKind().GroupKind() == schema.GroupKind{Group: group, Kind: kind}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// catalog returns the controller's catalog. It returns nil for --catalog-url none.
func (o *liveOptions) catalog(ctx context.Context, config *rest.Config) (*engine.CatalogDocument, error) {
	if o.catalogURL == catalogNone {
		return nil, nil
	}
	return fetchCatalog(ctx, config, o.leaderAddress)
}

// liveObjects lists the objects of a snapshot, page by page.
func liveObjects(ctx context.Context, config *rest.Config, notes *terminal) ([]scenario.Document, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	var out []scenario.Document
	for _, kind := range liveKinds() {
		requests := holds(out, autoscalingv1.GroupVersion.Group, requestKind)
		if kind.forBuffers && !holds(out, autoscalingv1beta1.GroupVersion.Group, bufferKind) && !(requests && kind.kind == "PodTemplate") {
			continue
		}
		if kind.kind == requestKind && requests {
			continue // the older version has the same objects
		}
		documents, err := liveList(ctx, client, kind)
		switch {
		case err == nil:
			out = append(out, documents...)
		case apierrors.IsNotFound(err) && kind.optional:
		case apierrors.IsForbidden(err) && strings.HasSuffix(kind.kind, "NodeClass"): // nothing follows from them
		case apierrors.IsForbidden(err) && (kind.forBuffers || slices.Contains(mayBeForbidden, kind.kind)):
			notes.line("note: %s are left out: %s", plural(kind.kind), oneLine(err))
		default:
			return nil, fmt.Errorf("list objects of kind %s: %w", kind.kind, err)
		}
	}
	return out, nil
}

func liveList(ctx context.Context, client dynamic.Interface, kind liveKind) ([]scenario.Document, error) {
	var out []scenario.Document
	options := metav1.ListOptions{Limit: 500}
	for {
		list, err := client.Resource(kind.GroupVersionResource).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			item := &list.Items[i]
			item.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.kind))
			scenario.Clean(item)
			out = append(out, scenario.Document{Object: item})
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}
