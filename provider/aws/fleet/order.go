// Package fleet asks EC2 for machines: claims that ask for the same are started by one call of CreateFleet, and each gets a
// machine of its answer, or the reason why there is none. What a claim may be started as, and what is tried next when there
// is no capacity, is left to package aws.
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

// Order is what a machine is asked for with. Machines of equal orders are asked for in one call.
type Order struct {
	Class, Pool string
	// CapacityType is that of all offers.
	CapacityType string
	// Block and Interruptible say which kind of reservation the offers are in, if they are in any.
	Block, Interruptible bool
	// Context is handed to EC2 as it is.
	Context string
	// Prioritized has EC2 heed our prices rather than its own.
	Prioritized bool
	// Tags are those of the machine and of what comes with it.
	Tags map[string]string
	// Offers are what may be bought, cheapest first; at least one.
	Offers    []Offer
	Templates []*template.Template
	Subnets   []awsv1.Subnet
	// Group is the ID of the placement group, "" for none; Partition the one that is asked for, "" for any of Partitions.
	Group, Partition string
	Partitions       int
}

// Offer is one thing that may be bought.
type Offer struct {
	engine.OfferingID
	Price float64
	Image string
	// Template is the index of the order's template for it.
	Template int
	// Addresses is how many addresses of its subnet a machine will take, at least.
	Addresses int
}

// key is the same for equal orders.
func (o *Order) key() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("write an order of EC2NodeClass %s: %v", o.Class, err)) // it holds plain values only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// place is where an offer is bought.
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
