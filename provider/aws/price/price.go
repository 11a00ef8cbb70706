// Package price holds the prices of EC2's machines: on-demand prices from the price list service, and spot prices from the history of spot
// prices. Until a service has answered, the package uses its built-in prices.
package price

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"tenon.sh/provider/aws/cloud"
)

// Prices holds the prices of a region. It may be used from several goroutines.
type Prices struct {
	cloud *cloud.Cloud
	clock clock.PassiveClock
	// isolated means that the price list service cannot be reached.
	isolated bool

	mu sync.Mutex // guards the fields below
	// onDemand has the price by type; the maps are never changed, only replaced.
	onDemand map[string]float64
	// spot has the price by type and zone, nil until EC2 has answered.
	spot map[string]map[string]float64
	edit int
	// asked is the time of the last answer, by kind of price.
	asked map[string]time.Time
}

// The two kinds of price.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
)

// New makes Prices with built-in prices by type.
func New(c *cloud.Cloud, clock clock.PassiveClock, isolated bool, static map[string]float64) *Prices {
	return &Prices{cloud: c, clock: clock, isolated: isolated, onDemand: static, asked: map[string]time.Time{}}
}

// OnDemand returns the price of a type in USD per hour; false if it is not known.
func (p *Prices) OnDemand(kind string) (float64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	price, known := p.onDemand[kind]
	return price, known
}

// Book holds all prices at one time. It never changes.
type Book struct {
	onDemand map[string]float64
	spot     map[string]map[string]float64
	// Edit changes with the prices: two Books with the same Edit have the same prices.
	Edit int
}

// Book returns all prices as they are now.
func (p *Prices) Book() Book {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Book{p.onDemand, p.spot, p.edit}
}

// OnDemand returns the price of a type in USD per hour; false if it is not known.
func (b Book) OnDemand(kind string) (float64, bool) {
	price, known := b.onDemand[kind]
	return price, known
}

// Spot returns the spot price of a type in a zone. Before EC2's first answer, it returns the on-demand price; afterwards, a type that EC2
// does not list has no price.
func (b Book) Spot(kind, zone string) (float64, bool) {
	if b.spot == nil {
		return b.OnDemand(kind)
	}
	price, known := b.spot[kind][zone]
	return price, known
}

// Age returns the time since the last answer with prices of a kind; false if there was none.
func (p *Prices) Age(kind string) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, known := p.asked[kind]
	return p.clock.Since(at), known
}

// Told reports whether a service that can be reached has prices of a kind. If not, the built-in prices are the only ones.
func (p *Prices) Told(kind string) bool {
	return kind != OnDemand || !p.isolated && p.cloud.HasPrices()
}

// Stale describes the prices that are older than limit, "" if there are none. With old prices, a launch may not buy the cheapest machine.
func (p *Prices) Stale(limit time.Duration) string {
	told := func(kind, otherwise string) string {
		switch age, known := p.Age(kind); {
		case !p.Told(kind):
			return ""
		case !known:
			return kind + " prices were never told: " + otherwise
		case age > limit:
			return fmt.Sprintf("%s prices are %s old", kind, age.Round(time.Minute))
		}
		return ""
	}
	onDemand := told(OnDemand, "those of us-east-1 that come with the program are used")
	spot := told(Spot, "on-demand prices are used")
	if onDemand != "" && spot != "" {
		return onDemand + "; " + spot
	}
	return onDemand + spot
}

// Refresh requests all prices again. Prices that the services do not return stay as they were.
func (p *Prices) Refresh(ctx context.Context) error {
	var onDemand, spot error
	var group errgroup.Group
	group.Go(func() error { onDemand = p.refreshOnDemand(ctx); return nil })
	group.Go(func() error { spot = p.refreshSpot(ctx); return nil })
	_ = group.Wait()
	return errors.Join(onDemand, spot)
}

func (p *Prices) refreshOnDemand(ctx context.Context) error {
	if !p.Told(OnDemand) {
		return nil
	}
	var shared, metal map[string]float64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { shared, err = p.list(ctx, "Shared", "Compute Instance"); return err })
	group.Go(func() (err error) { metal, err = p.list(ctx, "Dedicated", "Compute Instance (bare metal)"); return err })
	if err := group.Wait(); err != nil {
		return err
	}
	if len(shared) == 0 || len(metal) == 0 {
		return fmt.Errorf("ask for on-demand prices in %s: the price list service names none", p.cloud.Region)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A type that is not listed any more keeps its price.
	prices := maps.Clone(p.onDemand)
	maps.Copy(prices, metal)
	maps.Copy(prices, shared)
	if !maps.Equal(prices, p.onDemand) {
		p.onDemand = prices
		p.edit++
	}
	p.asked[OnDemand] = p.clock.Now()
	return nil
}

// list asks the price list service for the prices of one tenancy.
func (p *Prices) list(ctx context.Context, tenancy, family string) (map[string]float64, error) {
	prices := map[string]float64{}
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100)}
	for _, f := range [][2]string{
		{"regionCode", p.cloud.Region}, {"serviceCode", "AmazonEC2"}, {"preInstalledSw", "NA"}, {"operatingSystem", "Linux"},
		{"capacitystatus", "Used"}, {"marketoption", "OnDemand"}, {"tenancy", tenancy}, {"productFamily", family},
	} {
		in.Filters = append(in.Filters, pricingtypes.Filter{Field: aws.String(f[0]), Type: pricingtypes.FilterTypeTermMatch, Value: aws.String(f[1])})
	}
	pages := pricing.NewGetProductsPaginator(p.cloud.Pricing, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask for on-demand prices in %s: %w", p.cloud.Region, err)
		}
		for _, text := range page.PriceList {
			if kind, price, ok := readProduct(text, p.cloud.Currency()); ok {
				prices[kind] = price
			}
		}
	}
	return prices, nil
}

// product has the fields of a product in the price list that are used here.
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

func readProduct(text, currency string) (kind string, price float64, ok bool) {
	var p product
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Product.Attributes.InstanceType == "" {
		return "", 0, false
	}
	for _, term := range p.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			n, err := strconv.ParseFloat(dimension.PricePerUnit[currency], 64)
			if err == nil && n > 0 && n > price { // the highest of several prices, whatever their order
				price = n
			}
		}
	}
	return p.Product.Attributes.InstanceType, price, price > 0
}

func (p *Prices) refreshSpot(ctx context.Context) error {
	prices := map[string]map[string]float64{}
	latest := map[[2]string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.cloud.EC2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
		StartTime:           aws.Time(p.clock.Now()),
		MaxResults:          aws.Int32(2000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("ask for spot prices: %w", err)
		}
		for _, s := range page.SpotPriceHistory {
			readSpot(s, prices, latest)
		}
	}
	if len(prices) == 0 {
		return fmt.Errorf("ask for spot prices in %s: EC2 names none", p.cloud.Region)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !maps.EqualFunc(prices, p.spot, func(a, b map[string]float64) bool { return maps.Equal(a, b) }) {
		p.spot = prices
		p.edit++
	}
	p.asked[Spot] = p.clock.Now()
	return nil
}

// readSpot stores a price unless a later one is known.
func readSpot(s ec2types.SpotPrice, prices map[string]map[string]float64, latest map[[2]string]time.Time) {
	price, err := strconv.ParseFloat(aws.ToString(s.SpotPrice), 64)
	kind, zone := string(s.InstanceType), aws.ToString(s.AvailabilityZone)
	if err != nil || price <= 0 || s.Timestamp == nil || zone == "" || s.Timestamp.Before(latest[[2]string{kind, zone}]) {
		return
	}
	latest[[2]string{kind, zone}] = *s.Timestamp
	if prices[kind] == nil {
		prices[kind] = map[string]float64{}
	}
	prices[kind][zone] = price
}
