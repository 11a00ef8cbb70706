package market

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// memoryAge is the time for which a node's memory is remembered.
const memoryAge = 60 * 24 * time.Hour

// Memory remembers the memory of nodes, by size and image. It replaces an estimate that is some per cent too low, so that no pod is promised
// memory that the node does not have.
type Memory struct {
	clock clock.PassiveClock

	mu   sync.Mutex // guards the fields below
	seen map[sizeAndImage]sight
	edit int
	next time.Time // when the first sight ends
}

type sizeAndImage struct{ size, image string }

type sight struct {
	bytes int64
	until time.Time
}

func newMemory(clock clock.PassiveClock) *Memory {
	return &Memory{clock: clock, seen: map[sizeAndImage]sight{}}
}

// Saw records the memory of a node. Of several nodes, the one with the least memory counts.
func (m *Memory) Saw(size, image string, bytes int64) {
	if size == "" || image == "" || bytes <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	key := sizeAndImage{size, image}
	old, known := m.seen[key]
	if known && old.bytes < bytes {
		return
	}
	fresh := sight{bytes, m.clock.Now().Add(memoryAge)}
	m.seen[key] = fresh
	if m.next.IsZero() || fresh.until.Before(m.next) {
		m.next = fresh.until
	}
	if old.bytes != bytes {
		m.edit++
	}
}

// expire drops old sights. The lock is held.
func (m *Memory) expire() {
	now := m.clock.Now()
	if len(m.seen) == 0 || now.Before(m.next) {
		return
	}
	m.next = time.Time{}
	for key, s := range m.seen {
		switch {
		case !now.Before(s.until):
			delete(m.seen, key)
			m.edit++
		case m.next.IsZero() || s.until.Before(m.next):
			m.next = s.until
		}
	}
}

// version returns a number that changes whenever the known memory changes.
func (m *Memory) version() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.edit
}

// least returns the least known memory of nodes of a size, over all images, by size. The image of a class is not known here. Images differ by
// far less than the estimate's error.
func (m *Memory) least() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	out := map[string]int64{}
	for key, s := range m.seen {
		if known, found := out[key.size]; !found || s.bytes < known {
			out[key.size] = s.bytes
		}
	}
	return out
}
