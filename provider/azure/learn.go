package azure

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
)

// lookedFor is the time between two looks at the nodes.
const lookedFor = time.Minute

// learn reads, now and then, the memory of the nodes that this cluster started. It reads all nodes each time, so that a restart loses only
// the memory of nodes that are gone.
func (p *Provider) learn(ctx context.Context) {
	_, err := p.looked.Get(ctx, "", func(ctx context.Context) (struct{}, error) { return struct{}{}, p.look(ctx) })
	if err != nil {
		log.FromContext(ctx).Error(err, "nodes could not be read to learn how much memory they have")
	}
}

// look reads the nodes from the cache without a copy, because there may be thousands and it changes none.
func (p *Provider) look(ctx context.Context) error {
	claims, err := p.claims(ctx)
	if err != nil {
		return err
	}
	images := map[string]string{}
	for i := range claims {
		if c := &claims[i]; c.Status.NodeName != "" && v1.IsTrue(c, v1.ConditionRegistered) {
			images[c.Status.NodeName] = c.Status.ImageID
		}
	}
	var nodes corev1.NodeList
	if err := p.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if image, ours := images[n.Name]; ours {
			p.market.Memory.Saw(n.Labels[corev1.LabelInstanceTypeStable], image, n.Status.Capacity.Memory().Value())
		}
	}
	return nil
}
