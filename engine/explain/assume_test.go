package explain_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

func TestACatalogOfAnotherRegionIsSoldWhereTheNodesAre(t *testing.T) {
	t.Parallel()
	there := map[string][]string{corev1.LabelTopologyRegion: {"us-east-1"}}
	types := []engine.InstanceType{
		{Name: "two", Labels: there, Offerings: []engine.Offering{{Zone: "us-east-1a", Price: 0.1}, {Zone: "us-east-1b", Price: 0.2}}},
		{Name: "anywhere"},
	}
	node := func(zone, region string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: region}}}
	}
	here := explain.SoldHere(&engine.Snapshot{Nodes: []*corev1.Node{node("eu-central-1b", "eu-central-1"), node("us-east-1b", "eu-central-1")}}, types)
	if region := here[0].Labels[corev1.LabelTopologyRegion]; !slices.Equal(region, []string{"eu-central-1"}) {
		t.Errorf("its machines are in %v", region)
	}
	want := []engine.Offering{{Zone: "eu-central-1b", Price: 0.1}, {Zone: "us-east-1b", Price: 0.2}} // a zone that is known keeps its price
	if !slices.EqualFunc(here[0].Offerings, want, func(a, b engine.Offering) bool { return a.Zone == b.Zone && a.Price == b.Price }) {
		t.Errorf("sold as %+v", here[0].Offerings)
	}
	if here[1].Labels != nil || here[1].Offerings != nil {
		t.Errorf("a type without a region got %+v", here[1])
	}
	if there[corev1.LabelTopologyRegion][0] != "us-east-1" {
		t.Error("the catalog itself was changed")
	}
	if bare := explain.SoldHere(&engine.Snapshot{Nodes: []*corev1.Node{{}}}, types); bare[0].Labels[corev1.LabelTopologyRegion][0] != "us-east-1" || bare[0].Offerings[0].Zone != "us-east-1a" {
		t.Errorf("nodes that say nothing of their place move it to %+v", bare[0])
	}
}
