package find

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
)

// Addresses knows how many addresses subnets have free: as many as EC2 said last, less those that launches since then have
// taken. EC2 says it once a minute; without this, a thousand launches in between would all go to the same subnet.
type Addresses struct {
	clock clock.PassiveClock
	age   time.Duration

	mu     sync.Mutex // guards subnet
	subnet map[string]*addresses
}

type addresses struct {
	free  int
	taken int
	// look counts what EC2 said of the subnet, so that what was taken before is not given back after.
	look  int
	until time.Time
}

func newAddresses(clock clock.PassiveClock, age time.Duration) *Addresses {
	return &Addresses{clock: clock, age: age, subnet: map[string]*addresses{}}
}

// saw is what EC2 says of a subnet. It knows of everything that was taken before.
func (a *Addresses) saw(id string, free int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look := 0
	if old := a.subnet[id]; old != nil {
		look = old.look + 1
	}
	a.subnet[id] = &addresses{free: free, look: look, until: a.clock.Now().Add(a.age)}
}

// Free is the number of addresses that a subnet has left; false if nobody knows.
func (a *Addresses) Free(id string) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.subnet[id]
	if s == nil || !a.clock.Now().Before(s.until) {
		return 0, false
	}
	return max(0, s.free-s.taken), true
}

// Choose takes, for every zone, the subnet with most free addresses; of equal ones the first by ID.
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

// Take notes that a launch will take n addresses of a subnet. The function that it returns takes the note back; it does
// nothing once EC2 has said anew what is free.
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

// Exhausted notes that a subnet has no address left, whatever was thought.
func (a *Addresses) Exhausted(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.subnet[id]; s != nil {
		s.free, s.taken = 0, 0
	}
}
