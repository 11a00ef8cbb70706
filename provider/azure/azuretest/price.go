package azuretest

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// pricesPath is the path of the retail prices. Azure has a separate public service for them, prices.azure.com. Here it is the same server.
const pricesPath = "/api/retail/prices"

// PricesURL returns the address of the retail prices.
func (s *Subscription) PricesURL() string { return s.URL + pricesPath }

const pricesPage = 20 // Azure's pages have 1,000

var priceFilter = regexp.MustCompile(`^(\w+) eq '([^']*)'$`)

// prices answers with rows in Azure's form: for each size, rows for Linux, Windows, spot, low priority, a future price and a reservation.
func (s *Subscription) prices(r *http.Request) answer {
	wanted := map[string]string{}
	for _, part := range strings.Split(r.URL.Query().Get("$filter"), " and ") {
		parts := priceFilter.FindStringSubmatch(strings.TrimSpace(part))
		if parts == nil {
			return refuse(http.StatusBadRequest, "BadRequest", "Invalid OData parameters supplied: %s", part)
		}
		wanted[parts[1]] = parts[2]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := []any{}
	for _, size := range s.sizes {
		for _, row := range s.rows(size) {
			fits := true
			for field, value := range wanted {
				have, _ := row[field].(string)
				if field == "priceType" {
					have, _ = row["type"].(string)
				}
				fits = fits && (have == value || field == "currencyCode")
			}
			if fits {
				rows = append(rows, row)
			}
		}
	}
	from := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("$skip"), &from)
	from = min(from, len(rows))
	to := min(from+pricesPage, len(rows))
	out := object{"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail", "Items": rows[from:to], "NextPageLink": nil, "Count": to - from}
	if to < len(rows) {
		query := url.Values{"api-version": r.URL.Query()["api-version"], "$filter": r.URL.Query()["$filter"], "$skip": {fmt.Sprint(to)}}
		out["NextPageLink"] = s.PricesURL() + "?" + query.Encode()
	}
	return ok(out)
}

func (s *Subscription) rows(size Size) (out []object) {
	short := strings.ReplaceAll(strings.TrimPrefix(size.Name, "Standard_"), "_", " ")
	now := s.clock.Now()
	add := func(product, suffix, kind, unit string, price float64, from time.Time) {
		if price == 0 {
			return
		}
		row := object{
			"currencyCode": "USD", "tierMinimumUnits": 0, "retailPrice": price, "unitPrice": price, "armRegionName": Location, "location": "US East",
			"effectiveStartDate": from.UTC().Format(time.RFC3339), "meterId": fmt.Sprintf("%s/%s/%s", size.Name, product, suffix), "meterName": short + suffix,
			"productName": "Virtual Machines " + size.Family + product, "skuName": short + suffix, "serviceName": "Virtual Machines", "serviceFamily": "Compute",
			"unitOfMeasure": unit, "type": kind, "isPrimaryMeterRegion": true, "armSkuName": size.Name,
		}
		if kind == "Reservation" {
			row["reservationTerm"] = "1 Year"
		}
		out = append(out, row)
	}
	const hour = "1 Hour"
	past := now.AddDate(-1, 0, 0)
	add("", "", "Consumption", hour, size.Price, past)
	add(" Windows", "", "Consumption", hour, size.Windows, past)
	add("", " Spot", "Consumption", hour, size.Spot, past)
	add(" Windows", " Spot", "Consumption", hour, size.Spot*2, past)
	add("", " Low Priority", "Consumption", hour, size.Price/5, past)
	add("", "", "Consumption", hour, size.Price/2, now.AddDate(0, 1, 0)) // a future price, which is lower
	add("", "", "Reservation", hour, size.Price*8760*0.6, past)
	add("", "", "DevTestConsumption", hour, size.Price*0.9, past)
	return out
}
