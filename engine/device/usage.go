package device

import "maps"

// A Usage holds the allocations: whole devices, and shares of devices that several claims may have. The zero value is unusable; NewUsage returns
// an empty Usage.
type Usage struct {
	taken  map[ID]bool
	shares map[ID]shared
}

// shared sums up the shares of one device.
type shared struct {
	count    int
	consumed map[string]int64
}

// NewUsage returns a Usage without allocations.
func NewUsage() *Usage { return &Usage{taken: map[ID]bool{}, shares: map[ID]shared{}} }

// Clone returns an independent copy.
func (s *Usage) Clone() *Usage {
	return &Usage{taken: maps.Clone(s.taken), shares: maps.Clone(s.shares)}
}

// Take marks a whole device as allocated.
func (s *Usage) Take(id ID) { s.taken[id] = true }

// Share adds one claim's part of a device.
func (s *Usage) Share(id ID, consumed map[string]int64) { s.share(id, consumed, 1) }

// Add marks picks of Allocate as allocated. Admin access takes nothing.
func (s *Usage) Add(picks []Pick) {
	for _, p := range picks {
		switch {
		case p.Admin:
		case p.Shared:
			s.share(p.ID, p.Consumed, 1)
		default:
			s.taken[p.ID] = true
		}
	}
}

// Remove undoes Add.
func (s *Usage) Remove(picks []Pick) {
	for _, p := range picks {
		switch {
		case p.Admin:
		case p.Shared:
			s.share(p.ID, p.Consumed, -1)
		default:
			delete(s.taken, p.ID)
		}
	}
}

// share replaces the amounts instead of changing them, because clones have them too.
func (s *Usage) share(id ID, consumed map[string]int64, sign int64) {
	old := s.shares[id]
	now := shared{count: old.count + int(sign), consumed: maps.Clone(old.consumed)}
	if now.count <= 0 {
		delete(s.shares, id)
		return
	}
	if now.consumed == nil && len(consumed) > 0 {
		now.consumed = map[string]int64{}
	}
	for name, amount := range consumed {
		now.consumed[name] = plus(now.consumed[name], sign*amount)
	}
	s.shares[id] = now
}

// InUse reports whether a claim has the device or a part of it: then it consumes its pool's counters.
func (s *Usage) InUse(id ID) bool { return s.taken[id] || s.shares[id].count > 0 }
