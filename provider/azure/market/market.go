// Package market lists the machines that an Azure subscription can buy in its region: every VM size with its labels, the resources of a node of that
// size, the zones and prices, the sizes without capacity, and the unused quotas. Classes that ask for the same share one catalog. Package engine
// decides what to buy.
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
	// renewAfter is how long sizes and prices are believed, retryAfter the same when they could not be renewed, and tryAfter the
	// same when there are none, without which nothing works.
	renewAfter = 12 * time.Hour
	retryAfter = 5 * time.Minute
	tryAfter   = 5 * time.Second
	// patience bounds what a catalog waits for an answer that it can do without.
	patience = 15 * time.Second
)

// Config is what a Market is made from.
type Config struct {
	Cloud *cloud.Cloud
	Clock clock.Clock
	Marks *soldout.Marks
	// NoRetailPrices is for clouds that have none to ask for: prices are those that are built in.
	NoRetailPrices bool
	// Own are prices that somebody brings along, by size. Each goes before Azure's; one that is 0 does not.
	Own map[string]price.Price
}

// Market is what there is to buy in a region. It may be used from several goroutines.
type Market struct {
	cloud *cloud.Cloud
	clock clock.Clock
	marks *soldout.Marks
	// Memory is what nodes were seen to have.
	Memory *Memory

	skus, retail, usages *source
	quotas               *quotas
	shelf                *shelf

	mu     sync.Mutex // guards what follows
	stock  *stock     // never changed, only replaced; nil before the first answer
	prices prices
}

// stock is which sizes there are, and what they cost.
type stock struct {
	sizes []size.Figures    // ordered by name
	left  []assortment.Left // those that could not be read
	index map[string]int    // of sizes, by name
	table map[string]price.Price
	edit  int // another one whenever anything of it has changed
}

// New makes a market. It calls nothing.
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

// Renew asks Azure for sizes, prices and quotas where they are not known, or have been for long. Without sizes there is nothing to
// sell; whatever else cannot be had stays as it was, and the log says so.
func (m *Market) Renew(ctx context.Context) error {
	sources := []*source{m.skus, m.usages}
	if !m.prices.none {
		sources = append(sources, m.retail)
	}
	for _, s := range sources { // all at once
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

// askSizes asks for the sizes. Those that are known already stay if Azure does not answer, or with nothing.
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

// withRight says which right may be missing, if it is that.
func withRight(err error, right string) error {
	if !cloud.Denied(err) {
		return err
	}
	return fmt.Errorf("%w: give the identity of the autoscaler the right %s on the subscription", err, right)
}

// askPrices asks for the prices. Those that are known stay if Azure does not answer, or with nothing.
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

// restock puts a stock in the place of another, at the prices as they are. The lock is held.
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

// Catalog lists every size that a class can use, to be had at the moment or not, ordered by name. Nobody changes the list; it is the
// same one again while nothing has changed.
func (m *Market) Catalog(ctx context.Context, s size.Settings) ([]engine.InstanceType, error) {
	if err := m.Renew(ctx); err != nil {
		return nil, err
	}
	return m.shown(s), nil
}

// Left are the sizes that a class cannot use, and why, ordered by name; none if Azure cannot be asked.
func (m *Market) Left(ctx context.Context, s size.Settings) []assortment.Left {
	if m.Renew(ctx) != nil {
		return nil
	}
	return m.leftOut(s)
}

// Size is what is known of a size; false if it is not sold in the region, or Azure was not asked yet.
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
