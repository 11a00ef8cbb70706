package offering

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/requirement"
)

// A cache keeps only the data of a catalog that the present pools need.
func TestACacheForgetsPoolsThatAreGone(t *testing.T) {
	t.Parallel()
	class := engine.Class{Ref: v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}}
	class.InstanceTypes = []engine.InstanceType{{Name: "small", Offerings: []engine.Offering{{Zone: "a", CapacityType: v1.CapacityTypeOnDemand, Price: 1}}}}
	pool := func(name string) *v1.NodePool {
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.Spec.NodeClassRef = &class.Ref
		return p
	}
	cache, stays := &inventory.Cache{}, pool("stays")
	var kept *table
	for i := range 10 {
		s := &engine.Snapshot{NodePools: []*v1.NodePool{stays, pool(fmt.Sprint("passing-", i))}, Classes: []engine.Class{class}}
		cache.Take(s, 1)
		pools, broken := PoolsOf(s, cache, nil)
		for _, p := range pools {
			p.List(&Input{InterPod: constraints.NewInterPod(1), Universe: &requirement.Universe{}})
		}
		if len(pools) != 2 || len(broken) > 0 || len(pools[0].Options) != 1 {
			t.Fatalf("%d pools that sell, %v", len(pools), broken)
		}
		tables := inventory.KeptBy[catalogs](cache).byFirst[&class.InstanceTypes[0]].tables
		if i == 0 {
			kept = tables["stays"]
		}
		if len(tables) > 3 { // those of this call, and of the last one
			t.Fatalf("after %d calls with two pools each the cache keeps the tables of %d", i+1, len(tables))
		}
		if kept == nil || tables["stays"] != kept {
			t.Fatalf("call %d: the table of the pool that stays was made anew", i+1)
		}
	}
}

// A type with two operating systems has two options in a problem that distinguishes these, and one in any other. Problems of the same kind
// share the list.
func TestOptionsAreListedOnceForProblemsThatTellTheSameApart(t *testing.T) {
	t.Parallel()
	class := engine.Class{Ref: v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}}
	class.InstanceTypes = []engine.InstanceType{{
		Name: "small", Labels: map[string][]string{corev1.LabelOSStable: {"linux", "windows"}}, Offerings: []engine.Offering{{Zone: "a", CapacityType: v1.CapacityTypeOnDemand, Price: 1}},
	}}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &class.Ref
	s, cache := &engine.Snapshot{NodePools: []*v1.NodePool{pool}, Classes: []engine.Class{class}}, &inventory.Cache{}
	list := func(keys ...string) []Option {
		cache.Take(s, 1)
		pools, _ := PoolsOf(s, cache, nil)
		u := &requirement.Universe{}
		for _, key := range keys {
			u.Mention(key, "linux", "windows")
		}
		u.Close()
		pools[0].List(&Input{InterPod: constraints.NewInterPod(1), Universe: u})
		return pools[0].Options
	}
	one := list()
	if again := list(); &again[0] != &one[0] {
		t.Error("the same options were listed anew")
	}
	apart := list(corev1.LabelOSStable)
	if len(one) != 1 || len(apart) != 2 {
		t.Fatalf("%d options where nothing tells the systems apart, %d where something does", len(one), len(apart))
	}
	if again := list(corev1.LabelOSStable, corev1.LabelTopologyZone); &again[0] != &apart[0] {
		t.Error("the same options of either system were listed anew")
	}
}
