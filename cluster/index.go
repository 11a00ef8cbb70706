package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// The fields by which cached objects can be listed, for use with client.MatchingFields. If the API can select by a field, it has the API's name,
// so that the same list works without a cache.
const (
	PodsByNode              = "spec.nodeName"            // Pods; "" lists pods without a node
	PodsByUID               = "metadata.uid"             // Pods
	PodsByWorkload          = "metadata.controller"      // Pods, by the UID of their controller; pods of DaemonSets, and pods without a controller, have none
	NodesByProviderID       = "spec.providerID"          // Nodes
	ClaimsByProviderID      = "status.providerID"        // NodeClaims; "" lists claims that are not launched
	ClaimsByNodePool        = "metadata.labels.nodepool" // NodeClaims; "" lists claims without a pool
	VolumeAttachmentsByNode = "spec.nodeName"            // VolumeAttachments
)

// Index is an index of one kind of object by one field.
type Index struct {
	Object client.Object
	Field  string
	Values client.IndexerFunc
}

// Indexes returns all indexes that the controllers need. Fake clients in tests use the same list.
func Indexes() []Index {
	return []Index{
		{&corev1.Pod{}, PodsByNode, func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}},
		{&corev1.Pod{}, PodsByUID, func(o client.Object) []string {
			return []string{string(o.GetUID())}
		}},
		{&corev1.Pod{}, PodsByWorkload, func(o client.Object) []string {
			if uid := kube.WorkloadOf(o.(*corev1.Pod)); uid != "" {
				return []string{string(uid)}
			}
			return nil
		}},
		{&corev1.Node{}, NodesByProviderID, func(o client.Object) []string {
			return []string{o.(*corev1.Node).Spec.ProviderID}
		}},
		{&v1.NodeClaim{}, ClaimsByProviderID, func(o client.Object) []string {
			return []string{o.(*v1.NodeClaim).Status.ProviderID}
		}},
		{&v1.NodeClaim{}, ClaimsByNodePool, func(o client.Object) []string {
			return []string{o.GetLabels()[v1.NodePoolLabelKey]}
		}},
		{&storagev1.VolumeAttachment{}, VolumeAttachmentsByNode, func(o client.Object) []string {
			return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
		}},
	}
}

// AddIndexes registers the indexes with a cache, before it starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range Indexes() {
		if err := indexer.IndexField(ctx, index.Object, index.Field, index.Values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.Object, index.Field, err)
		}
	}
	return nil
}
