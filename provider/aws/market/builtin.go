package market

import (
	"strconv"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/catalog"
)

// builtIn are the figures that come with the program: what the API does not say of types, and their prices in us-east-1.
func builtIn() (map[string]size.Static, map[string]float64) {
	figures, prices := map[string]size.Static{}, map[string]float64{}
	for _, t := range catalog.AWS() {
		var s size.Static
		if mbps := t.Labels[awsv1.NetworkBandwidthLabelKey]; len(mbps) == 1 {
			s.NetworkMbps, _ = strconv.ParseInt(mbps[0], 10, 64)
		}
		if branches, has := t.Capacity[awsv1.ResourcePodENI]; has {
			s.BranchENIs = int(branches.Value())
		}
		figures[t.Name] = s
		for _, o := range t.Offerings {
			if o.CapacityType == v1.CapacityTypeOnDemand {
				prices[t.Name] = o.Price
			}
		}
	}
	return figures, prices
}
