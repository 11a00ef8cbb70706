// Package market knows what machines of EC2 there are to buy: every instance type with its labels, what a node of it has,
// where it is sold, at which price, and what has no capacity. Classes that ask for the same share one catalog, and catalogs
// share what they have in common. What to buy is decided in package engine.
package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/engine"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/expression"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/price"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/aws/soldout"
)

const (
	// renewAfter is how long types and prices are believed, retryAfter the same when they could not be renewed.
	renewAfter = 12 * time.Hour
	retryAfter = 5 * time.Minute
	// pricePatience bounds what a catalog waits for prices: it can do with older ones.
	pricePatience = 12 * time.Second
	// keptFor is how long a catalog is kept that nobody asks for, markedFor the same for one with marks of what is sold out:
	// in a storm of shortages there is another one after every launch.
	keptFor, markedFor = 15 * time.Minute, 2 * time.Minute
)

// Config is what a Market is made from.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// Isolated means that the price list service cannot be reached.
	Isolated bool
	Marks    *soldout.Marks
	Slots    *find.Slots
	// Expressions computes expressions in classes; nil leaves fields unset that hold one.
	Expressions *expression.Calculator
	// NoReserved says that capacity reservations sell nothing.
	NoReserved bool
}

// Market is what there is to buy in a region. It may be used from several goroutines.
type Market struct {
	cloud  *cloud.Cloud
	clock  clock.PassiveClock
	Prices *price.Prices
	// Memory is what nodes were seen to have.
	Memory *Memory
	marks  *soldout.Marks
	slots  *find.Slots
	static map[string]size.Static

	expressions *expression.Calculator
	noReserved  bool

	renewing chan struct{} // holds a token while somebody renews

	mu         sync.Mutex // guards what follows
	stock      *stock     // never changed, only replaced
	renewTypes time.Time
	renewPrice time.Time

	shelf shelf
}

// stock is which types there are, and where.
type stock struct {
	types []size.Figures // ordered by name
	// zones are where a type is sold, in order.
	zones map[string][]string
	edit  int
}

// New makes a market. It calls nothing.
func New(cfg Config) *Market {
	static, prices := builtIn()
	return &Market{
		cloud: cfg.Cloud, clock: cfg.Clock, marks: cfg.Marks, slots: cfg.Slots, static: static, expressions: cfg.Expressions, noReserved: cfg.NoReserved,
		renewing: make(chan struct{}, 1),
		Prices:   price.New(cfg.Cloud, cfg.Clock, cfg.Isolated, prices),
		Memory:   newMemory(cfg.Clock),
		shelf:    newShelf(cfg.Clock),
	}
}

// Renew asks EC2 for types and prices where they are not known, or have been for long. Without types there is nothing to
// sell; prices that cannot be had stay as they were, and the log says so.
func (m *Market) Renew(ctx context.Context) error {
	select {
	case m.renewing <- struct{}{}:
		defer func() { <-m.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	now := m.clock.Now()
	types, prices := !now.Before(m.renewTypes), !now.Before(m.renewPrice)
	m.mu.Unlock()
	var group errgroup.Group
	if types {
		group.Go(func() error { return m.renewStock(ctx) })
	}
	if prices {
		group.Go(func() error { m.renewPrices(ctx); return nil })
	}
	return group.Wait()
}

func (m *Market) renewPrices(ctx context.Context) {
	patient, cancel := context.WithTimeout(ctx, pricePatience)
	defer cancel()
	err := m.Prices.Refresh(patient)
	again := renewAfter
	if err != nil && ctx.Err() == nil {
		again = retryAfter
		log.FromContext(ctx).Error(err, "prices could not be renewed", "meanwhile", m.Prices.Stale(renewAfter), "retryAfter", retryAfter.String())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		m.renewPrice = m.clock.Now().Add(again)
	}
}

// renewStock asks for types and where they are sold. A stock that is known already stays if EC2 does not answer.
func (m *Market) renewStock(ctx context.Context) error {
	fresh := &stock{}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) { fresh.types, err = m.describeTypes(inner); return err })
	group.Go(func() (err error) { fresh.zones, err = m.describeOfferings(inner); return err })
	err := group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		if m.stock == nil || ctx.Err() != nil {
			return err
		}
		log.FromContext(ctx).Error(err, "instance types could not be renewed", "retryAfter", retryAfter.String())
		m.renewTypes = m.clock.Now().Add(retryAfter)
		return nil
	}
	m.renewTypes = m.clock.Now().Add(renewAfter)
	if m.stock != nil {
		if sameStock(m.stock, fresh) {
			return nil
		}
		fresh.edit = m.stock.edit + 1
	}
	m.stock = fresh
	return nil
}

func sameStock(a, b *stock) bool {
	same := func(x, y size.Figures) bool { return fmt.Sprint(x) == fmt.Sprint(y) }
	return slices.EqualFunc(a.types, b.types, same) && maps.EqualFunc(a.zones, b.zones, slices.Equal[[]string])
}

func (m *Market) describeTypes(ctx context.Context) (out []size.Figures, err error) {
	pages := ec2.NewDescribeInstanceTypesPaginator(m.cloud.EC2, &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{
			{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
			{Name: aws.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
		},
		MaxResults: aws.Int32(100),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask for instance types: %w", err)
		}
		for i := range page.InstanceTypes {
			if f := FiguresOf(&page.InstanceTypes[i], m.static); f.Architecture != "" && f.VCPUs > 0 {
				out = append(out, f)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("ask for instance types: EC2 names none in " + m.cloud.Region)
	}
	slices.SortFunc(out, func(a, b size.Figures) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (m *Market) describeOfferings(ctx context.Context) (map[string][]string, error) {
	out := map[string][]string{}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(m.cloud.EC2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask where instance types are offered: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			out[string(o.InstanceType)] = append(out[string(o.InstanceType)], aws.ToString(o.Location))
		}
	}
	if len(out) == 0 {
		return nil, errors.New("ask where instance types are offered: EC2 names no offering in " + m.cloud.Region)
	}
	for kind := range out {
		slices.Sort(out[kind])
	}
	return out, nil
}

// Catalog lists every instance type that a class can use, sold out or not, ordered by name. Nobody changes the list; it is
// the same one again while nothing has changed.
func (m *Market) Catalog(ctx context.Context, want Want) ([]engine.InstanceType, error) {
	if err := m.Renew(ctx); err != nil {
		return nil, err
	}
	if len(want.Subnets) == 0 {
		return nil, errors.New("no subnets found: spec.subnetSelectorTerms selects none")
	}
	types, err := m.compile(m.known(), m.Prices.Book(), want)
	if err != nil {
		return nil, err
	}
	return m.marked(want, types), nil
}

// Computed are settings as they are for nodes of one type: expressions are replaced by what they come to.
func (m *Market) Computed(ctx context.Context, settings *size.Settings, kind string) (*size.Settings, error) {
	if err := m.Renew(ctx); err != nil {
		return nil, err
	}
	for i := range m.known().types {
		if f := &m.known().types[i]; f.Name == kind {
			computed, _, err := f.Computed(settings, m.expressions)
			return computed, err
		}
	}
	return nil, fmt.Errorf("EC2 has no instance type %s in %s", kind, m.cloud.Region)
}

// Uncomputable says which expression cannot be computed for which type, nil if all can for all.
func (m *Market) Uncomputable(ctx context.Context, settings *size.Settings) (problem, err error) {
	if err := m.Renew(ctx); err != nil {
		return nil, err
	}
	for i := range m.known().types {
		_, problems, err := m.known().types[i].Computed(settings, m.expressions)
		if err != nil {
			return err, nil
		}
		if len(problems) > 0 {
			return problems[0], nil
		}
	}
	return nil, nil
}

func (m *Market) known() *stock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stock
}
