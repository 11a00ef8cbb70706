// Package market makes the catalogs of classes for an Azure subscription in its region: every VM size with its labels and node resources, its
// zones and prices, marks of sold-out offerings, and the unused quotas. Equal classes share one catalog. Package engine chooses the machines.
package market

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/sku"
	"tenon.sh/provider/azure/soldout"
)

const (
	// renewAfter is the time for which sizes and prices are kept. retryAfter is the time until the next attempt after a failure, and tryAfter
	// the same before the first answer, because nothing works without one.
	renewAfter = 12 * time.Hour
	retryAfter = 5 * time.Minute
	tryAfter   = 5 * time.Second
	// patience is the time that a catalog waits for an answer if an older one will do.
	patience = 15 * time.Second
)

// Config holds the settings of a Market.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.Clock
	Marks *soldout.Marks
	// NoRetailPrices is for clouds without a price service: the built-in prices are used.
	NoRetailPrices bool
	// Own are the caller's prices, by size. Each replaces Azure's, unless it is 0.
	Own map[string]price.Price
}

// Market makes the catalogs of a region. It may be used from several goroutines.
type Market struct {
	cloud *cloud.Cloud
	clock clock.Clock
	marks *soldout.Marks
	// Memory is the memory that nodes were seen to have.
	Memory *Memory

	skus, retail, usages *source
	quotas               *quotas
	shelf                *shelf

	mu     sync.Mutex // guards the fields below
	stock  *stock     // never changed, only replaced; nil before the first answer
	prices prices
}

// stock holds the sizes and their prices.
type stock struct {
	sizes []size.Figures    // ordered by name
	left  []assortment.Left // sizes that could not be read
	index map[string]int    // of sizes, by name
	table map[string]price.Price
	edit  int // increases with every change
}

// New makes a Market. It calls no service.
func New(cfg Config) *Market {
	m := &Market{
		cloud: cfg.Cloud, clock: cfg.Clock, marks: cfg.Marks, Memory: newMemory(cfg.Clock), quotas: newQuotas(cfg.Clock), shelf: newShelf(cfg.Clock),
		prices: newPrices(cfg.Cloud.Location, cfg.Own, cfg.NoRetailPrices),
	}
	m.skus = newSource("VM sizes", cfg.Clock, m.askSizes, func() time.Duration {
		if m.known() == nil {
			return tryAfter
		}
		return retryAfter
	})
	m.retail = newSource("retail prices", cfg.Clock, m.askPrices, func() time.Duration { return retryAfter })
	m.usages = newSource("quotas", cfg.Clock, m.askQuotas, func() time.Duration { return retryAfter })
	return m
}

// Renew asks Azure for sizes, prices and quotas if they are not known or too old. Without any sizes it returns an error. If anything else
// cannot be renewed, the old values stay, and the log has the error.
func (m *Market) Renew(ctx context.Context) error {
	sources := []*source{m.skus, m.usages}
	if !m.prices.none {
		sources = append(sources, m.retail)
	}
	for _, s := range sources { // in parallel
		s.begin(ctx)
	}
	for _, s := range sources {
		if err := s.wait(ctx, s != m.skus || m.known() != nil); err != nil {
			return err
		}
	}
	if m.known() == nil {
		return fmt.Errorf("ask for VM sizes: %w", m.skus.problem())
	}
	return nil
}

// askSizes asks for the sizes. Known sizes stay if Azure does not answer, or answers without sizes.
func (m *Market) askSizes(ctx context.Context) (time.Duration, error) {
	skus, err := m.cloud.Sizes(ctx)
	if err != nil {
		return 0, withRight(err, "Microsoft.Compute/skus/read")
	}
	sizes, unread := sku.Figures(skus, m.cloud.Location)
	sizes = slices.CompactFunc(sizes, func(a, b size.Figures) bool { return a.Name == b.Name })
	if len(sizes) == 0 {
		return 0, fmt.Errorf("no instance types found in region %q: check that LOCATION is a name of Azure's (eastus), and that the identity of the autoscaler has "+
			"the right Microsoft.Compute/skus/read on subscription %s", m.cloud.Location, m.cloud.Subscription)
	}
	fresh := &stock{sizes: sizes, index: make(map[string]int, len(sizes))}
	for i := range sizes {
		fresh.index[sizes[i].Name] = i
	}
	for _, text := range unread {
		name, why, _ := strings.Cut(strings.TrimPrefix(text, "VM size "), ": ")
		fresh.left = append(fresh.left, assortment.Left{Size: name, Why: why})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restock(fresh)
	return renewAfter, nil
}

// withRight adds the right that may be missing to an error, if Azure denied the call.
func withRight(err error, right string) error {
	if !cloud.Denied(err) {
		return err
	}
	return fmt.Errorf("%w: give the identity of the autoscaler the right %s on the subscription", err, right)
}

// askPrices asks for the prices. Known prices stay if Azure does not answer, or answers without prices.
func (m *Market) askPrices(ctx context.Context) (time.Duration, error) {
	rows, err := m.cloud.Prices(ctx)
	if err != nil {
		return 0, err
	}
	now := m.clock.Now()
	table := readPrices(rows, now)
	if len(table) == 0 {
		return 0, fmt.Errorf("%d rows for %s, none of which is the price of a machine with Linux", len(rows), m.cloud.Location)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prices.retail, m.prices.asked = table, now
	if m.stock != nil {
		fresh := *m.stock
		m.restock(&fresh)
	}
	return renewAfter, nil
}

// restock replaces the stock, with current prices. The lock is held.
func (m *Market) restock(fresh *stock) {
	fresh.table = m.prices.of(fresh.sizes)
	if old := m.stock; old != nil {
		if reflect.DeepEqual(old.sizes, fresh.sizes) && reflect.DeepEqual(old.left, fresh.left) && reflect.DeepEqual(old.table, fresh.table) {
			return
		}
		fresh.edit = old.edit + 1
	}
	m.stock = fresh
}

func (m *Market) known() *stock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stock
}

// Catalog lists every size that a class can use, sold out or not, ordered by name. Callers must not change the list, because the same list is
// returned until something changes.
func (m *Market) Catalog(ctx context.Context, s size.Settings) ([]engine.InstanceType, error) {
	if err := m.Renew(ctx); err != nil {
		return nil, err
	}
	return m.shown(s), nil
}

// Left returns the sizes that a class cannot use, with reasons, ordered by name. It returns none if no sizes are known because Azure does not answer.
func (m *Market) Left(ctx context.Context, s size.Settings) []assortment.Left {
	if m.Renew(ctx) != nil {
		return nil
	}
	return m.leftOut(s)
}

// Size returns the figures of a size; false if it is not sold in the region, or if Azure has not answered yet.
func (m *Market) Size(name string) (size.Figures, bool) {
	s := m.known()
	if s == nil {
		return size.Figures{}, false
	}
	i, found := s.index[name]
	if !found {
		return size.Figures{}, false
	}
	return s.sizes[i], true
}

var errNotAsked = errors.New("no answer of Azure yet")
