package market

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// memoryAge is how long it is remembered what a node was seen to have.
const memoryAge = 60 * 24 * time.Hour

// Memory remembers how much memory nodes were seen to have, by size and image. The estimate that it takes the place of is some per
// cent too low, so that no pod is promised room that is not there.
type Memory struct {
	clock clock.PassiveClock

	mu   sync.Mutex // guards what follows
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

// Saw notes the memory of a node. Of several nodes the one counts that has least.
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

// expire forgets what is too old. The lock is held.
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

// version is another one whenever something else is known.
func (m *Memory) version() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.edit
}

// least is what nodes of a size have at least, whatever their image, by size. Which image a class starts is not known here; images
// differ by far less than the estimate is wrong.
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
