package market

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
)

const (
	// quotasAfter is the time between two questions about quotas. quotasAge is the time for which an answer counts if Azure does not answer
	// again; after that, no quota counts as used up.
	quotasAfter = 10 * time.Minute
	quotasAge   = 15 * time.Minute
	// quotasAfterLaunch is the time until the next question after a machine was started or refused.
	quotasAfterLaunch = time.Minute
)

// quotas holds the limits and the use of cores of the subscription in the region.
type quotas struct {
	clock clock.PassiveClock

	mu     sync.Mutex           // guards the fields below
	limits map[string]usage     // by name in lower case; nil: not known
	read   time.Time            // when Azure was asked for limits
	until  time.Time            // when they are too old
	flying map[string]int       // cores of machines that are being started, by quota
	landed map[*flight]struct{} // flights whose start has ended, but whose cores Azure's last answer may lack
}

type usage struct {
	name        string // as Azure writes it
	used, limit int64
}

// flight is a machine that is being started.
type flight struct {
	names []string
	cores int
}

func newQuotas(clock clock.PassiveClock) *quotas {
	return &quotas{clock: clock, flying: map[string]int{}, landed: map[*flight]struct{}{}}
}

// quotasOf returns the quotas that a machine counts against, in lower case.
func quotasOf(f *size.Figures, capacityType string) (names []string) {
	for _, use := range assortment.QuotaUses(f, capacityType) {
		names = append(names, strings.ToLower(use.Quota))
	}
	return names
}

// Quotas returns Azure's last answer about the quotas of cores for the region's sizes, by name. Without a recent answer, it returns none. The
// figures do not include machines that were started since; planners know these from their claims.
func (m *Market) Quotas() (out []engine.Quota) {
	s, q := m.known(), m.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.expire(); q.limits == nil || s == nil {
		return nil
	}
	names := map[string]bool{}
	for i := range s.sizes {
		for _, capacityType := range []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot} {
			for _, use := range assortment.QuotaUses(&s.sizes[i], capacityType) {
				names[use.Quota] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if u, known := q.limits[strings.ToLower(name)]; known {
			out = append(out, engine.Quota{
				Name: name, Left: u.limit - u.used, Limit: u.limit, Read: q.read,
				Unit: "vCPUs", Scope: m.cloud.Location, More: "ask Azure for more (Portal: Quotas, Compute)",
			})
		}
	}
	return out
}

// askQuotas asks for the quotas. The answer includes machines that were started before.
func (m *Market) askQuotas(ctx context.Context) (time.Duration, error) {
	counted, asked := m.quotas.whatLanded(), m.clock.Now()
	list, err := m.cloud.Usages(ctx)
	if err != nil {
		return 0, withRight(err, "Microsoft.Compute/locations/usages/read")
	}
	m.quotas.answered(list, counted, asked)
	return quotasAfter, nil
}

func (q *quotas) whatLanded() []*flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*flight
	for f := range q.landed {
		out = append(out, f)
	}
	return out
}

func (q *quotas) answered(list []*armcompute.Usage, counted []*flight, asked time.Time) {
	limits := make(map[string]usage, len(list))
	for _, u := range list {
		if u == nil || u.Name == nil || u.Name.Value == nil || u.Limit == nil || u.CurrentValue == nil || *u.Limit < 0 {
			continue
		}
		limits[strings.ToLower(*u.Name.Value)] = usage{*u.Name.Value, int64(*u.CurrentValue), *u.Limit}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range counted {
		q.forget(f)
	}
	q.limits, q.read, q.until = limits, asked, q.clock.Now().Add(quotasAge)
}

// forget removes the cores of a landed flight from the count. The lock is held.
func (q *quotas) forget(f *flight) {
	if _, there := q.landed[f]; !there {
		return
	}
	delete(q.landed, f)
	for _, name := range f.names {
		if q.flying[name] -= f.cores; q.flying[name] <= 0 {
			delete(q.flying, name)
		}
	}
}

// expire drops limits that are too old. The lock is held.
func (q *quotas) expire() {
	if q.limits == nil || q.clock.Now().Before(q.until) {
		return
	}
	q.limits = nil
	for f := range q.landed {
		q.forget(f)
	}
}

// lacking describes the quota that has too little left for a machine, "" if none has.
func (q *quotas) lacking(f *size.Figures, capacityType string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire()
	if name := q.exceeded(f, capacityType); name != "" {
		u := q.limits[name]
		return fmt.Sprintf("quota %s has %d of %d vCPUs left, with %d for machines that are being started: %s takes %d",
			u.name, max(0, u.limit-u.used-int64(q.flying[name])), u.limit, q.flying[name], f.Name, f.VCPUs)
	}
	return ""
}

// exceeded returns the name of the first quota that a machine would exceed. The lock is held.
func (q *quotas) exceeded(f *size.Figures, capacityType string) string {
	for _, name := range quotasOf(f, capacityType) {
		if u, known := q.limits[name]; known && u.used+int64(q.flying[name])+int64(f.VCPUs) > u.limit {
			return name
		}
	}
	return ""
}

// Launching counts a machine against the quotas before Azure does. The caller calls `over` once Azure has accepted or refused the machine. From
// then on, the next request to Azure for the quotas includes the machine, and its answer ends the count.
func (m *Market) Launching(name, capacityType string) (over func()) {
	f, found := m.Size(name)
	if !found {
		return func() {}
	}
	q, started := m.quotas, &flight{quotasOf(&f, capacityType), f.VCPUs}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range started.names {
		q.flying[name] += started.cores
	}
	return sync.OnceFunc(func() {
		q.mu.Lock()
		q.expire()
		q.landed[started] = struct{}{}
		known := q.limits != nil
		if !known { // no answer may ever count it
			q.forget(started)
		}
		q.mu.Unlock()
		if known {
			m.usages.sooner(quotasAfterLaunch)
		}
	})
}

// NoQuota describes the quota that has too little left for one more machine of a size, in addition to the machines that are being started. It
// returns "" if all quotas have enough, or if they are not known.
func (m *Market) NoQuota(name, capacityType string) string {
	f, found := m.Size(name)
	if !found {
		return ""
	}
	return m.quotas.lacking(&f, capacityType)
}
