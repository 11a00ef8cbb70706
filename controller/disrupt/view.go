package disrupt

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// view finds the objects of a snapshot by name.
type view struct {
	snapshot *engine.Snapshot
	claims   map[string]*v1.NodeClaim
	pools    map[string]*v1.NodePool

	mu    sync.Mutex // guards what follows
	nodes map[string]*corev1.Node
	pods  map[types.UID]string // the nodes of pods; nil until the first use

	recording sync.Mutex              // guards what follows
	recorded  map[string]*v1.NodePool // the pools on which this pass has recorded moves, as they are now
}

func newView(s *engine.Snapshot) *view {
	v := &view{snapshot: s, nodes: map[string]*corev1.Node{}, claims: map[string]*v1.NodeClaim{}, pools: map[string]*v1.NodePool{}, recorded: map[string]*v1.NodePool{}}
	for _, n := range s.Nodes {
		v.nodes[n.Name] = n
	}
	for _, c := range s.NodeClaims {
		v.claims[c.Name] = c
	}
	for _, p := range s.NodePools {
		v.pools[p.Name] = p
	}
	return v
}

// objects returns the nodes and claims with these names. The lists contain nil for missing objects.
func (v *view) objects(nodeNames, claimNames []string) (nodes []*corev1.Node, claims []*v1.NodeClaim) {
	for _, name := range nodeNames {
		nodes = append(nodes, v.node(name))
	}
	for _, name := range claimNames {
		claims = append(claims, v.claims[name])
	}
	return nodes, claims
}

// node returns the newest node of that name that this pass knows. It returns nil if there is none.
func (v *view) node(name string) *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.nodes[name]
}

// put replaces a node by its changed version.
func (v *view) put(node *corev1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes[node.Name] = node
}

// policy returns the consolidation policy of the claim's pool, if the reason is a consolidation.
func (v *view) policy(claim *v1.NodeClaim, reason v1.DisruptionReason) v1.ConsolidationPolicy {
	if reason != v1.Empty && reason != v1.Underutilized {
		return ""
	}
	if pool := v.pools[claim.Labels[v1.NodePoolLabelKey]]; pool != nil {
		return pool.Spec.Disruption.ConsolidationPolicy
	}
	return ""
}
