package cloud

import "strings"

// priceRegion returns the region whose price list service has the prices of a region. Only a few regions have this service.
func priceRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

// HasPrices reports whether a price list service has the prices of the region.
func (c *Cloud) HasPrices() bool { return !strings.HasPrefix(c.Region, "us-gov") }

// Currency returns the currency of the region's prices.
func (c *Cloud) Currency() string {
	if strings.HasPrefix(c.Region, "cn-") {
		return "CNY"
	}
	return "USD"
}

// HasIPv6Metadata reports whether EC2 lets users choose whether the metadata service answers on IPv6.
func (c *Cloud) HasIPv6Metadata() bool { return !strings.Contains(c.Region, "-iso") }
