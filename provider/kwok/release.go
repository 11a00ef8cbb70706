package kwok

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/engine"
	"tenon.sh/provider"
)

var _ provider.Releaser = &Provider{}

// ReleasedAnnotationKey marks Nodes that stay although the autoscaler was removed. Their machines belong to no autoscaler.
const ReleasedAnnotationKey = "tenon.sh/released"

// Release marks the Node of a machine as released. KWOK still manages the Node.
func (p *Provider) Release(ctx context.Context, id engine.MachineID) error {
	node := &corev1.Node{}
	err := p.reader.Get(ctx, types.NamespacedName{Name: nodeName(id)}, node)
	if apierrors.IsNotFound(err) {
		return provider.ErrGone
	}
	if err != nil {
		return fmt.Errorf("release machine %s: read its Node: %w", id, err)
	}
	before := client.MergeFrom(node.DeepCopy())
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[ReleasedAnnotationKey] = "true"
	if err := p.client.Patch(ctx, node, before); err != nil {
		return fmt.Errorf("release machine %s: change its Node: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released[id] = true
	return nil
}

// ReleaseClass does nothing, because this cloud has no resources of a class.
func (p *Provider) ReleaseClass(context.Context, provider.Class) ([]string, error) { return nil, nil }
