package find

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
)

// Addresses counts the free addresses of subnets: EC2's last count minus the addresses that launches have taken since. EC2 is asked once a
// minute; without this count, a thousand launches in between would all use the same subnet.
type Addresses struct {
	clock clock.PassiveClock
	age   time.Duration

	mu     sync.Mutex // guards subnet
	subnet map[string]*addresses
}

type addresses struct {
	free  int
	taken int
	// look counts EC2's reports about the subnet. An address that was taken before a report must not be given back after it.
	look  int
	until time.Time
}

func newAddresses(clock clock.PassiveClock, age time.Duration) *Addresses {
	return &Addresses{clock: clock, age: age, subnet: map[string]*addresses{}}
}

// saw records EC2's count for a subnet. EC2 has counted all addresses that were taken before.
func (a *Addresses) saw(id string, free int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look := 0
	if old := a.subnet[id]; old != nil {
		look = old.look + 1
	}
	a.subnet[id] = &addresses{free: free, look: look, until: a.clock.Now().Add(a.age)}
}

// Free returns the number of free addresses of a subnet; false if it is not known.
func (a *Addresses) Free(id string) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.subnet[id]
	if s == nil || !a.clock.Now().Before(s.until) {
		return 0, false
	}
	return max(0, s.free-s.taken), true
}

// Choose returns, for every zone, the subnet with the most free addresses; of equal subnets the first by ID.
func (a *Addresses) Choose(subnets []awsv1.Subnet) map[string]awsv1.Subnet {
	chosen, most := map[string]awsv1.Subnet{}, map[string]int{}
	for _, s := range subnets {
		free, _ := a.Free(s.ID)
		best, found := chosen[s.Zone]
		if !found || free > most[s.Zone] || free == most[s.Zone] && s.ID < best.ID {
			chosen[s.Zone], most[s.Zone] = s, free
		}
	}
	return chosen
}

// Take records that a launch will take n addresses of a subnet. The returned function undoes this, unless EC2 has reported a new count since.
func (a *Addresses) Take(id string, n int) (giveBack func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.subnet[id]
	if s == nil {
		return func() {}
	}
	s.taken += n
	look := s.look
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if now := a.subnet[id]; now != nil && now.look == look {
			now.taken -= n
		}
	}
}

// Exhausted records that a subnet has no free address.
func (a *Addresses) Exhausted(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.subnet[id]; s != nil {
		s.free, s.taken = 0, 0
	}
}
