// Package market makes the catalogs of classes from EC2's answers: every instance type with its labels and node size, its zones and prices,
// and marks of sold-out offerings. Equal classes share one catalog, and catalogs share equal parts. Package engine chooses the machines.
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
	// renewAfter is the time for which types and prices are kept, retryAfter the time until the next attempt after a failure.
	renewAfter = 12 * time.Hour
	retryAfter = 5 * time.Minute
	// pricePatience is the time that a catalog waits for prices, because older prices will do.
	pricePatience = 12 * time.Second
	// keptFor is the time for which an unused catalog is kept, markedFor the time for an unused catalog with sold-out marks: during many
	// shortages there is a new one after every launch.
	keptFor, markedFor = 15 * time.Minute, 2 * time.Minute
)

// Config holds the settings of a Market.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.PassiveClock
	// Isolated means that the price list service cannot be reached.
	Isolated bool
	Marks    *soldout.Marks
	Slots    *find.Slots
	// Expressions computes expressions in classes; if it is nil, fields with an expression stay unset.
	Expressions *expression.Calculator
	// NoReserved marks all capacity reservations as sold out.
	NoReserved bool
}

// Market makes the catalogs of a region. It may be used from several goroutines.
type Market struct {
	cloud  *cloud.Cloud
	clock  clock.PassiveClock
	Prices *price.Prices
	// Memory is the memory that nodes were seen to have.
	Memory *Memory
	marks  *soldout.Marks
	slots  *find.Slots
	static map[string]size.Static

	expressions *expression.Calculator
	noReserved  bool

	renewing chan struct{} // holds a token during a renewal

	mu         sync.Mutex // guards the fields below
	stock      *stock     // never changed, only replaced
	renewTypes time.Time
	renewPrice time.Time

	shelf shelf
}

// stock holds the instance types and their zones.
type stock struct {
	types []size.Figures // ordered by name
	// zones are the zones in which a type is sold, in order.
	zones map[string][]string
	edit  int
}

// New makes a Market. It calls no service.
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

// Renew asks EC2 for types and prices if they are not known or too old. Without any types it returns an error. If prices cannot be renewed,
// the old ones stay, and the log has the error.
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

// renewStock asks for types and their zones. A known stock stays if EC2 does not answer.
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

// Catalog lists every instance type that a class can use, sold out or not, ordered by name. Callers must not change the list, because the
// same list is returned until something changes.
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

// Computed returns the settings for nodes of one type, with expressions replaced by their results.
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

// Uncomputable computes the expressions for every type. `problem` describes the first expression that fails, with the type; it is nil if all
// succeed. `err` means that the types are not known.
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
