package inventory_test

import (
	"testing"

	"tenon.sh/engine/inventory"
	"tenon.sh/scenario"
)

// A price is the price of the exact offering, or unknown. A wrong price would be worse.
func TestPricesAreThoseOfTheCatalogOrUnknown(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`pool general
type large cpu=8 mem=16Gi offer=(zone=a price=0.17) offer=(zone=a price=0.02 labels=reservation:r1) offer=(zone=b price=0)
`)
	if err != nil {
		t.Fatal(err)
	}
	book := inventory.NewPriceBook(file.Snapshot)
	for name, c := range map[string]struct {
		labels map[string]string
		want   float64
	}{
		"as it says":                   {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a"}, 0.17},
		"by the names of old clusters": {map[string]string{"beta.kubernetes.io/instance-type": "large", "failure-domain.beta.kubernetes.io/zone": "a"}, 0.17},
		"of its reservation":           {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a", "reservation": "r1"}, 0.02},
		"not spot":                     {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "a", "eks.amazonaws.com/capacityType": "SPOT"}, 0},
		"without a price":              {map[string]string{"node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "b"}, 0},
		"of another type":              {map[string]string{"node.kubernetes.io/instance-type": "huge", "topology.kubernetes.io/zone": "a"}, 0},
		"without labels":               {nil, 0},
	} {
		if got, known := book.Price(c.labels, nil); got != c.want || known != (c.want > 0) {
			t.Errorf("a node %s costs %v (known: %v), want %v", name, got, known, c.want)
		}
	}
}
