package find

import "sync"

// Slots counts the machines for which each capacity reservation still has room: EC2's last count, corrected for later starts and stops.
type Slots struct {
	mu   sync.Mutex // guards free and edit
	free map[string]int
	edit int
}

func newSlots() *Slots { return &Slots{free: map[string]int{}} }

func (s *Slots) saw(id string, free int) { s.set(id, func(int) int { return free }) }

// Free returns the number of machines for which a reservation has room.
func (s *Slots) Free(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free[id]
}

// Used records that a machine was started in a reservation.
func (s *Slots) Used(id string) { s.set(id, func(n int) int { return max(0, n-1) }) }

// Returned records that a machine of a reservation is gone.
func (s *Slots) Returned(id string) { s.set(id, func(n int) int { return n + 1 }) }

// Exhausted records that a reservation has no room.
func (s *Slots) Exhausted(id string) { s.set(id, func(int) int { return 0 }) }

// Edit returns a number that changes with every change of a count.
func (s *Slots) Edit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.edit
}

func (s *Slots) set(id string, change func(int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.free[id]
	if n := change(old); n != old || !known {
		s.free[id] = n
		s.edit++
	}
}
