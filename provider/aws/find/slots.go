package find

import "sync"

// Slots knows how many machines each capacity reservation still has room for: as many as EC2 said last, with what has been
// started and stopped since.
type Slots struct {
	mu   sync.Mutex // guards free and edit
	free map[string]int
	edit int
}

func newSlots() *Slots { return &Slots{free: map[string]int{}} }

func (s *Slots) saw(id string, free int) { s.set(id, func(int) int { return free }) }

// Free is the number of machines that a reservation has room for.
func (s *Slots) Free(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free[id]
}

// Used notes that a machine was started in a reservation.
func (s *Slots) Used(id string) { s.set(id, func(n int) int { return max(0, n-1) }) }

// Returned notes that a machine of a reservation is gone.
func (s *Slots) Returned(id string) { s.set(id, func(n int) int { return n + 1 }) }

// Exhausted notes that a reservation has no room, whatever was thought.
func (s *Slots) Exhausted(id string) { s.set(id, func(int) int { return 0 }) }

// Edit changes whenever any count does.
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
