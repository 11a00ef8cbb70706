package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// Sizes returns the sizes of machines that the location has for the subscription.
func (c *Cloud) Sizes(ctx context.Context) ([]*armcompute.ResourceSKU, error) {
	filter := "location eq '" + c.Location + "'" // without it, the answer is tens of megabytes
	list, err := all(ctx, "ResourceSkus_List", c.Location, c.skus.NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: &filter}),
		func(page armcompute.ResourceSKUsClientListResponse) []*armcompute.ResourceSKU { return page.Value })
	if err != nil {
		return nil, err
	}
	out := list[:0]
	for _, sku := range list {
		if sku.ResourceType != nil && *sku.ResourceType == "virtualMachines" {
			out = append(out, sku)
		}
	}
	return out, nil
}

// Usages returns the quotas of the location, and their use.
func (c *Cloud) Usages(ctx context.Context) ([]*armcompute.Usage, error) {
	return all(ctx, "Usage_List", c.Location, c.usage.NewListPager(c.Location, nil), func(page armcompute.UsageClientListResponse) []*armcompute.Usage { return page.Value })
}

// Price is a row of the retail prices.
type Price struct {
	ArmSkuName, SkuName, MeterName, ProductName, Type, UnitOfMeasure, CurrencyCode string
	RetailPrice                                                                    float64
	EffectiveStartDate                                                             time.Time
}

const (
	retailPrices = "https://prices.azure.com/api/retail/prices"
	pricePages   = 1000 // more pages are taken for an error
)

// Prices returns the rows for the location's machines. They include other operating systems, spot, low priority and future prices. The
// service needs no credentials, and only the public cloud has it.
func (c *Cloud) Prices(ctx context.Context) (out []Price, err error) {
	const call = "RetailPrices"
	base := c.config.PricesURL
	if base == "" {
		base = retailPrices
	}
	pipeline := runtime.NewPipeline("tenon", "", runtime.PipelineOptions{PerRetry: c.config.Options.PerRetryPolicies}, &c.config.Options.ClientOptions)
	next := base + "?" + url.Values{"api-version": {"2023-01-01-preview"}, "$filter": {"priceType eq 'Consumption' and currencyCode eq 'USD' and serviceFamily eq 'Compute'" +
		" and serviceName eq 'Virtual Machines' and armRegionName eq '" + c.Location + "'"}}.Encode()
	for pages := 0; next != ""; pages++ {
		if pages == pricePages {
			return nil, brokenError(call, c.Location, "more than %d pages", pricePages)
		}
		request, err := runtime.NewRequest(ctx, http.MethodGet, next)
		if err != nil {
			return nil, decode(call, c.Location, false, err)
		}
		answer, err := pipeline.Do(request)
		if err != nil {
			return nil, decode(call, c.Location, false, err)
		}
		if answer.StatusCode != http.StatusOK {
			return nil, decode(call, c.Location, false, runtime.NewResponseError(answer))
		}
		var page struct {
			Items        []Price
			NextPageLink string
		}
		body, err := runtime.Payload(answer)
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return nil, decode(call, c.Location, false, err)
		}
		out, next = append(out, page.Items...), page.NextPageLink
	}
	return out, nil
}
