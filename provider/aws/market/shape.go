package market

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/assortment"
	"tenon.sh/provider/aws/size"
)

// labels returns the labels of every type, in the order of the stock.
func (m *Market) labels(s *stock, want Want) []map[string][]string {
	out := assortment.Labels(s.types, m.cloud.Region, want.Settings.Family)
	var group map[string][]string
	if g := want.Group; g != nil {
		group = map[string][]string{awsv1.PlacementGroupIDLabelKey: {g.ID}, awsv1.PlacementGroupPartitionLabelKey: nil}
		for p := 1; p <= g.Partitions && g.Strategy == "partition"; p++ {
			group[awsv1.PlacementGroupPartitionLabelKey] = append(group[awsv1.PlacementGroupPartitionLabelKey], strconv.Itoa(p))
		}
	}
	for i := range out {
		maps.Copy(out[i], group)
	}
	return out
}

// sizes holds the sizes of every type, in the order of the stock, or an error if one cannot be computed.
type sizes struct {
	list []assortment.Size
	err  error
}

// sizes computes the sizes of nodes. Types with equal resources share the lists.
func (m *Market) sizes(s *stock, settings *size.Settings, learned map[string]int64) sizes {
	list, err := assortment.Sizes(s.types, settings, m.expressions, learned)
	shared := map[string]corev1.ResourceList{}
	share := func(list *corev1.ResourceList) {
		key := keyOf(*list)
		if shared[key] == nil {
			shared[key] = *list
		}
		*list = shared[key]
	}
	for i := range list {
		share(&list[i].Capacity)
		share(&list[i].Overhead)
	}
	return sizes{list, err}
}
