// Package catalog holds instance types as data: the built-in catalogs, "kwok" (regular sizes made by formula), "aws" (the
// figures of EC2 in us-east-1) and "azure" (those of Azure in East US), and the file format in which users write their own.
//
// A catalog says what there is to buy, at which price. What is sold out at the moment, and what to buy, is left to the
// providers and to package engine.
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

// Names are those of the built-in catalogs.
func Names() []string { return []string{NameKWOK, NameAWS, NameAzure} }

// ByName returns the built-in catalog of that name, ordered by name. Each call builds it anew; whoever holds it shares
// it with others rather than asking again.
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

// Sort puts instance types in the order in which every catalog stands: by name.
func Sort(types []engine.InstanceType) {
	slices.SortFunc(types, func(a, b engine.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
}

// ReservationLabel is the label of machines that were started in a capacity reservation: its name.
const ReservationLabel = awsv1.ReservationIDLabelKey
