package packing

import (
	"tenon.sh/engine/bound"
)

// search is the part of a round that buys machines. It finds cheap machines for as many pods of the demands as limits allow.
type search struct {
	p       *Problem
	market  *market
	host    *hostIndex
	demands []*demand
	bins    []*openBin
	bound   float64
	worth   []float64
	low     []float64 // supply.low of the supply that machines are bought from; nil if it does not apply
	// boundDemands is the method placement.boundDemands.
	boundDemands func(sup *supply, counts []int) ([]*Ways, []bound.Demand)
}
