package market

import (
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/catalog"
)

// builtIn returns the built-in figures: properties of types that the API does not give, and prices in us-east-1.
func builtIn() (map[string]size.Static, map[string]float64) {
	figures, prices := catalog.BuiltIn()
	static := map[string]size.Static{}
	for _, f := range figures {
		static[f.Name] = size.Static{NetworkMbps: f.NetworkMbps, BranchENIs: f.BranchENIs}
	}
	return static, prices
}
