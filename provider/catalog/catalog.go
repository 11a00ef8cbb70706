// Package catalog holds instance types as data: the built-in catalogs "kwok" (regular sizes from a formula), "aws" (figures of EC2 in
// us-east-1) and "azure" (figures of Azure in East US), and the file format for catalogs of users.
//
// A catalog lists offerings and their prices. Providers know which offerings are sold out; package engine decides which to buy.
package catalog

import (
	"cmp"
	"fmt"
	"slices"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
)

// The names of the built-in catalogs.
const (
	NameKWOK  = "kwok"
	NameAWS   = "aws"
	NameAzure = "azure"
)

// Names returns the names of the built-in catalogs.
func Names() []string { return []string{NameKWOK, NameAWS, NameAzure} }

// ByName returns the built-in catalog of that name, ordered by name. Each call builds a new catalog, so callers should keep and share it.
func ByName(name string) ([]engine.InstanceType, error) {
	switch name {
	case NameKWOK:
		return KWOK(), nil
	case NameAWS:
		return AWS(), nil
	case NameAzure:
		return Azure(AzureRegion, false), nil
	}
	return nil, fmt.Errorf("there is no built-in catalog %q: it is one of %q", name, Names())
}

// Sort sorts instance types by name, the order of every catalog.
func Sort(types []engine.InstanceType) {
	slices.SortFunc(types, func(a, b engine.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
}

// ReservationLabel is the label of machines that were started in a capacity reservation. Its value is the reservation's name.
const ReservationLabel = awsv1.ReservationIDLabelKey
