package market

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/size"
)

// labels are those of every type, in the order of the stock.
func (m *Market) labels(s *stock, want Want) []map[string][]string {
	out := make([]map[string][]string, len(s.types))
	var group map[string][]string
	if g := want.Group; g != nil {
		group = map[string][]string{awsv1.PlacementGroupIDLabelKey: {g.ID}, awsv1.PlacementGroupPartitionLabelKey: nil}
		for p := 1; p <= g.Partitions && g.Strategy == "partition"; p++ {
			group[awsv1.PlacementGroupPartitionLabelKey] = append(group[awsv1.PlacementGroupPartitionLabelKey], strconv.Itoa(p))
		}
	}
	words := words{}
	for i := range s.types {
		out[i] = s.types[i].Labels(m.cloud.Region, want.Settings.Family, find.WindowsBuild(want.Settings.Family))
		for key, values := range out[i] {
			out[i][key] = words.share(values)
		}
		maps.Copy(out[i], group)
	}
	return out
}

// words holds lists of label values that many types share.
type words map[string][]string

func (w words) share(values []string) []string {
	if len(values) != 1 {
		return values
	}
	if w[values[0]] == nil {
		w[values[0]] = values
	}
	return w[values[0]]
}

// nodeSize is what a node of a type has, and what it keeps back.
type nodeSize struct{ capacity, overhead corev1.ResourceList }

// sizes are those of every type, in the order of the stock, or why one cannot be told.
type sizes struct {
	list []nodeSize
	err  error
}

// sizes computes what nodes have. Types that have the same share it.
func (m *Market) sizes(s *stock, settings *size.Settings, learned map[string]int64) sizes {
	out := make([]nodeSize, len(s.types))
	shared := map[string]corev1.ResourceList{}
	share := func(list corev1.ResourceList) corev1.ResourceList {
		key := keyOf(list)
		if shared[key] == nil {
			shared[key] = list
		}
		return shared[key]
	}
	for i := range s.types {
		f := &s.types[i]
		computed, _, err := f.Computed(settings, m.expressions)
		if err != nil {
			return sizes{err: err}
		}
		out[i] = nodeSize{share(f.Capacity(computed, learned[f.Name])), share(f.Overhead(computed))}
	}
	return sizes{list: out}
}
