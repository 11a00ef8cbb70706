// Package fleet asks EC2 for machines. One call of CreateFleet serves all claims with equal orders; each claim gets a machine of the answer,
// or the reason why there is none. Package aws decides which offers a claim has, and which to try next if they have no capacity.
package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/soldout"
	"tenon.sh/provider/aws/template"
)

// Order is a request for a machine. One call serves all equal orders.
type Order struct {
	Class, Pool string
	// CapacityType is the capacity type of all offers.
	CapacityType string
	// Block and Interruptible are the kind of reservation of the offers, if they are in one.
	Block, Interruptible bool
	// Context is passed to EC2 unchanged.
	Context string
	// Prioritized makes EC2 use our prices instead of its own.
	Prioritized bool
	// Tags are the tags of the machine and its volumes, and of the fleet.
	Tags map[string]string
	// Offers are the offers to choose from, cheapest first; at least one.
	Offers    []Offer
	Templates []*template.Template
	Subnets   []awsv1.Subnet
	// Group is the ID of the placement group, "" for none. Partition is the requested partition, "" for any of Partitions.
	Group, Partition string
	Partitions       int
}

// Offer is an offering that a launch may buy.
type Offer struct {
	engine.OfferingID
	Price float64
	Image string
	// Template is the index of the offer's template in the order.
	Template int
	// Addresses is the least number of addresses that a machine takes from its subnet.
	Addresses int
}

// key returns the same text for equal orders.
func (o *Order) key() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("write an order of EC2NodeClass %s: %v", o.Class, err)) // it holds plain values only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// place returns the place of an offer in a zone.
func (o *Order) place(zone string) soldout.Place {
	p := soldout.Place{Zone: zone, Group: o.Group, Partitions: o.Partitions}
	for _, s := range o.Subnets {
		if s.Zone == zone {
			p.ZoneID = s.ZoneID
			p.Subnets = append(p.Subnets, s.ID)
		}
	}
	return p
}
