package market

import (
	"fmt"
	"time"

	"tenon.sh/provider/catalog"
)

// PricesNote returns the note about the origin of prices, "" if they are Azure's and up to date.
func (m *Market) PricesNote() string {
	problem := m.retail.problem()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prices.note(problem)
}

// note returns the note about the prices, given the result of their last request.
func (p *prices) note(problem error) string {
	builtIn := "prices are built in, those of " + catalog.AzureRegion
	if p.region != catalog.AzureRegion {
		builtIn += " and not of " + p.region
	}
	switch {
	case p.none:
		return builtIn + ": this cloud has no retail prices"
	case p.retail == nil:
		return fmt.Sprintf("%s: %v", builtIn, problem)
	case problem != nil:
		return fmt.Sprintf("prices are of %s: %v", p.asked.UTC().Format(time.RFC3339), problem)
	}
	return ""
}
