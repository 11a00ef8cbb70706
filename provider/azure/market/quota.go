package market

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/size"
)

const (
	// quotasAfter is how long quotas are believed to be as they are, quotasAge how long they are believed if Azure does not answer:
	// then nothing is taken to be used up.
	quotasAfter = 10 * time.Minute
	quotasAge   = 15 * time.Minute
	// quotasAfterLaunch is how soon they are asked for again after a machine was started, or was not.
	quotasAfterLaunch = time.Minute
)

// The quotas beside those of families, in lower case.
const (
	regionalQuota = "cores"
	spotQuota     = "lowprioritycores"
)

// quotas are how many cores a subscription may have in the region, and how many it has.
type quotas struct {
	clock clock.PassiveClock

	mu     sync.Mutex           // guards what follows
	limits map[string]usage     // by name in lower case; nil: nothing is known
	until  time.Time            // when limits are too old
	flying map[string]int       // cores of machines that are being started, by quota
	landed map[*flight]struct{} // those whose start is over, and that no answer can have counted yet
	edit   int
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

// quotasOf are those that a machine counts against, in lower case.
func quotasOf(f *size.Figures, capacityType string) []string {
	if capacityType == v1.CapacityTypeSpot {
		return []string{spotQuota}
	}
	return []string{strings.ToLower(f.QuotaFamily), regionalQuota}
}

// askQuotas asks for the quotas. Machines that were started before are in the answer.
func (m *Market) askQuotas(ctx context.Context) (time.Duration, error) {
	counted := m.quotas.whatLanded()
	list, err := m.cloud.Usages(ctx)
	if err != nil {
		return 0, withRight(err, "Microsoft.Compute/locations/usages/read")
	}
	m.quotas.answered(list, counted)
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

func (q *quotas) answered(list []*armcompute.Usage, counted []*flight) {
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
	q.limits, q.until = limits, q.clock.Now().Add(quotasAge)
	q.edit++
}

// forget takes a machine out of what is being started. The lock is held.
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
	q.edit++
}

// expire drops what is too old to be believed. The lock is held.
func (q *quotas) expire() {
	if q.limits == nil || q.clock.Now().Before(q.until) {
		return
	}
	q.limits = nil
	q.edit++
	for f := range q.landed {
		q.forget(f)
	}
}

// version is another one whenever something has changed.
func (q *quotas) version() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire()
	return q.edit
}

// lacking says which quota has too little left for a machine, "" if none has.
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

// exceeded is the name of the first quota that a machine would exceed. The lock is held.
func (q *quotas) exceeded(f *size.Figures, capacityType string) string {
	for _, name := range quotasOf(f, capacityType) {
		if u, known := q.limits[name]; known && u.used+int64(q.flying[name])+int64(f.VCPUs) > u.limit {
			return name
		}
	}
	return ""
}

// full are the sizes for which a quota has too little left: bit 1 on demand, bit 2 spot. Nil if there are none.
func (q *quotas) full(sizes []size.Figures) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expire()
	if q.limits == nil {
		return nil
	}
	out, some := make([]byte, len(sizes)), false
	for i := range sizes {
		for bit, capacityType := range []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot} {
			if q.exceeded(&sizes[i], capacityType) != "" {
				out[i] |= 1 << bit
				some = true
			}
		}
	}
	if !some {
		return nil
	}
	return out
}

// Launching counts a machine against the quotas that Azure does not count yet. Call over once Azure has accepted or refused it; it
// goes on counting until the next question after that, in whose answer it is or is not.
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
	q.edit++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		q.expire()
		q.landed[started] = struct{}{}
		known := q.limits != nil
		if !known { // nobody may ever count it
			q.forget(started)
		}
		q.mu.Unlock()
		if known {
			m.usages.sooner(quotasAfterLaunch)
		}
	})
}

// NoQuota says which quota has too little left for a machine of a size, beside those that are being started; "" if all have enough,
// or that is not known.
func (m *Market) NoQuota(name, capacityType string) string {
	f, found := m.Size(name)
	if !found {
		return ""
	}
	return m.quotas.lacking(&f, capacityType)
}

// fullness is for which sizes of a stock a quota has too little left, as it was last found out.
type fullness struct {
	mu      sync.Mutex // guards what follows
	stock   *stock
	edit    int // of the quotas
	sizes   []byte
	version int // another one whenever sizes are others
}

// full are the sizes for which a quota has too little left, and which version of that it is. Most starts of machines change what is
// left, and few what can be had.
func (m *Market) full(s *stock) (sizes []byte, version int) {
	f := &m.fullness
	f.mu.Lock()
	defer f.mu.Unlock()
	edit := m.quotas.version()
	if f.stock == s && f.edit == edit {
		return f.sizes, f.version
	}
	sizes = m.quotas.full(s.sizes)
	if !bytes.Equal(sizes, f.sizes) {
		f.version++
	}
	f.stock, f.edit, f.sizes = s, edit, sizes
	return f.sizes, f.version
}
