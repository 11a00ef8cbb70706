package awstest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/catalog"
)

// Reservation is a capacity reservation.
type Reservation struct {
	ID, InstanceType, Zone, Owner string
	// Criteria is open or targeted, Type default or capacity-block.
	Criteria, Type string
	Free           int
	Interruptible  bool
	Ends           time.Time
	Tags           map[string]string
}

// PlacementGroup is a placement group.
type PlacementGroup struct {
	ID, Name, Strategy, SpreadLevel string
	Partitions                      int
	// State is the state; "" means available.
	State string
}

// answers returns the front's own answer to a call, "" if moto shall answer.
func (a *Account) answers(call Call) (text, contentType string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const ec2XML, amazonJSON = "text/xml", "application/x-amz-json-1.1"
	switch call.Action {
	case "ec2:DescribeCapacityReservations":
		return a.describeReservations(call), ec2XML
	case "ec2:DescribePlacementGroups":
		return a.describeGroups(call), ec2XML
	case "ec2:DescribeImages":
		if a.images != nil {
			return a.describeImages(call), ec2XML
		}
	case "ec2:DescribeInstanceStatus":
		return a.describeStatus(call), ec2XML
	case "ec2:DescribeSpotPriceHistory":
		return a.describeSpotPrices(), ec2XML
	case "ssm:GetParameter":
		var in struct{ Name string }
		if json.Unmarshal(call.Body, &in) == nil && publishedParameter(in.Name) != "" {
			return fmt.Sprintf(`{"Parameter":{"Name":%q,"Type":"String","Value":%q}}`, in.Name, publishedParameter(in.Name)), amazonJSON
		}
	case "pricing:GetProducts":
		return a.getProducts(call), amazonJSON
	case "arc-zonal-shift:GetManagedResource":
		return a.managedResource(), "application/json"
	}
	return "", ""
}

// filters parses Filter.1.Name, Filter.1.Value.1 and so on.
func (c *Call) filters() map[string][]string {
	out := map[string][]string{}
	for i := 1; c.Form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := c.Form.Get(fmt.Sprintf("Filter.%d.Name", i))
		out[name] = append(out[name], c.List(fmt.Sprintf("Filter.%d.Value", i))...)
	}
	return out
}

// List parses a list of a form, "InstanceId.1" and so on.
func (c *Call) List(prefix string) (out []string) {
	for i := 1; c.Form.Has(fmt.Sprintf("%s.%d", prefix, i)); i++ {
		out = append(out, c.Form.Get(fmt.Sprintf("%s.%d", prefix, i)))
	}
	return out
}

func passes(filters map[string][]string, have map[string]string, tags map[string]string) bool {
	for name, values := range filters {
		value := have[name]
		if key, isTag := strings.CutPrefix(name, "tag:"); isTag {
			value = tags[key]
		}
		if name == "tag-key" {
			if _, found := tags[values[0]]; found {
				value = values[0]
			}
		}
		if !slices.Contains(values, value) {
			return false
		}
	}
	return true
}

func element(name, value string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(value))
	return "<" + name + ">" + b.String() + "</" + name + ">"
}

func ec2Answer(operation, list string, items []string) string {
	return fmt.Sprintf("<%sResponse><requestId>r</requestId><%s><item>%s</item></%s></%sResponse>",
		operation, list, strings.Join(items, "</item><item>"), list, operation)
}

func orEmpty(operation, list string, items []string) string {
	if len(items) == 0 {
		return fmt.Sprintf("<%sResponse><requestId>r</requestId><%s/></%sResponse>", operation, list, operation)
	}
	return ec2Answer(operation, list, items)
}

func (a *Account) describeReservations(call Call) string {
	ids, filters := call.List("CapacityReservationId"), call.filters()
	var items []string
	for _, r := range a.reservations {
		owner := r.Owner
		if owner == "" {
			owner = a.ID
		}
		have := map[string]string{"state": "active", "owner-id": owner, "instance-match-criteria": r.Criteria}
		if len(ids) > 0 && !slices.Contains(ids, r.ID) || !passes(filters, have, r.Tags) {
			continue
		}
		item := element("capacityReservationId", r.ID) + element("instanceType", r.InstanceType) + element("availabilityZone", r.Zone) + element("ownerId", owner) +
			element("instanceMatchCriteria", r.Criteria) + element("reservationType", r.Type) + element("state", "active") +
			element("availableInstanceCount", strconv.Itoa(r.Free)) + element("interruptible", strconv.FormatBool(r.Interruptible))
		if !r.Ends.IsZero() {
			item += element("endDate", r.Ends.UTC().Format(time.RFC3339))
		}
		items = append(items, item)
	}
	return orEmpty("DescribeCapacityReservations", "capacityReservationSet", items)
}

func (a *Account) describeGroups(call Call) string {
	ids, names := call.List("GroupId"), call.List("GroupName")
	var items []string
	for _, g := range a.groups {
		if g.State == "" {
			g.State = "available"
		}
		if len(ids) > 0 && !slices.Contains(ids, g.ID) || len(names) > 0 && !slices.Contains(names, g.Name) || !passes(call.filters(), map[string]string{"state": g.State}, nil) {
			continue
		}
		item := element("groupId", g.ID) + element("groupName", g.Name) + element("strategy", g.Strategy) + element("state", g.State)
		if g.Partitions > 0 {
			item += element("partitionCount", strconv.Itoa(g.Partitions))
		}
		if g.SpreadLevel != "" {
			item += element("spreadLevel", g.SpreadLevel)
		}
		items = append(items, item)
	}
	return orEmpty("DescribePlacementGroups", "placementGroupSet", items)
}

func (a *Account) describeImages(call Call) string {
	var items []string
	for _, i := range a.images {
		if !i.selects(call.filters(), call.List("Owner")) {
			continue
		}
		if i.Architecture == "" {
			i.Architecture = "x86_64"
		}
		item := element("imageId", i.ID) + element("name", i.Name) + element("architecture", i.Architecture) + element("imageState", "available") +
			element("creationDate", i.Created.UTC().Format("2006-01-02T15:04:05.000Z"))
		if !i.Deprecated.IsZero() {
			item += element("deprecationTime", i.Deprecated.UTC().Format("2006-01-02T15:04:05.000Z"))
		}
		items = append(items, item)
	}
	return orEmpty("DescribeImages", "imagesSet", items)
}

// describeSpotPrices answers in one page. Moto would give one price for all types.
func (a *Account) describeSpotPrices() string {
	prices := a.spot
	if prices == nil {
		prices = builtInSpotPrices()
	}
	var items []string
	for key, price := range prices {
		items = append(items, element("instanceType", key[0])+element("availabilityZone", key[1])+element("productDescription", "Linux/UNIX")+
			element("spotPrice", strconv.FormatFloat(price, 'f', -1, 64))+element("timestamp", "2026-01-01T00:00:00Z"))
	}
	return orEmpty("DescribeSpotPriceHistory", "spotPriceHistorySet", items)
}

// getProducts answers in pages of 100, as the price list service does.
func (a *Account) getProducts(call Call) string {
	var in struct {
		Filters   []struct{ Field, Value string }
		NextToken string
	}
	_ = json.Unmarshal(call.Body, &in)
	metal := false
	for _, f := range in.Filters {
		metal = metal || f.Field == "productFamily" && strings.Contains(f.Value, "bare metal")
	}
	prices := a.prices
	if prices == nil {
		prices = builtInPrices()
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if strings.Contains(name, "metal") == metal {
			list = append(list, fmt.Sprintf(`{"product":{"attributes":{"instanceType":%q}},"terms":{"OnDemand":{"t":{"priceDimensions":{"d":{"pricePerUnit":{"USD":"%.10f"}}}}}}}`, name, prices[name]))
		}
	}
	from, _ := strconv.Atoi(in.NextToken)
	to := min(from+100, len(list))
	out := map[string]any{"FormatVersion": "aws_v1", "PriceList": list[from:to]}
	if to < len(list) {
		out["NextToken"] = strconv.Itoa(to)
	}
	text, _ := json.Marshal(out)
	return string(text)
}

// managedResource returns the answer with the zonal shifts of the cluster from SetZonalShifts.
func (a *Account) managedResource() string {
	shifts := []map[string]any{}
	for _, zone := range slices.Sorted(maps.Keys(a.shifted)) {
		shifts = append(shifts, map[string]any{"appliedStatus": "APPLIED", "awayFrom": zone, "expiryTime": a.shifted[zone].Unix(),
			"startTime": 0, "resourceIdentifier": Cluster, "zonalShiftId": "z", "comment": "", "status": "ACTIVE"})
	}
	text, _ := json.Marshal(map[string]any{"appliedWeights": map[string]float64{}, "zonalShifts": shifts})
	return string(text)
}

// builtInSpotPrices are the prices of the built-in catalog, with its zones mapped to those of Region.
var builtInSpotPrices = sync.OnceValue(func() map[[2]string]float64 {
	out := map[[2]string]float64{}
	for _, t := range catalog.AWS() {
		for _, o := range t.Offerings {
			if o.CapacityType == v1.CapacityTypeSpot {
				out[[2]string{t.Name, Region + o.Zone[len(o.Zone)-1:]}] = o.Price
			}
		}
	}
	return out
})

// builtInPrices are the on-demand prices of the built-in catalog.
var builtInPrices = sync.OnceValue(func() map[string]float64 {
	out := map[string]float64{}
	for _, t := range catalog.AWS() {
		out[t.Name] = t.Offerings[0].Price
	}
	return out
})
