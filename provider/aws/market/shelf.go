package market

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// shelf caches compiled parts by their inputs. It drops parts that no caller has asked for in a while.
type shelf struct {
	clock clock.PassiveClock
	mu    *sync.Mutex // guards items
	items map[string]*item
}

type item struct {
	making sync.Mutex // held while the value is made
	value  any
	until  time.Time // extended by each call for it
}

func newShelf(clock clock.PassiveClock) shelf {
	return shelf{clock: clock, mu: &sync.Mutex{}, items: map[string]*item{}}
}

// kept returns the value of a key. If there is none yet, it calls `make` once for all callers. The value is kept for the duration `long` after
// the last call.
func kept[T any](s shelf, key string, long time.Duration, make func() T) T {
	s.mu.Lock()
	now := s.clock.Now()
	found := s.items[key]
	if found == nil {
		for k, i := range s.items {
			if now.After(i.until) {
				delete(s.items, k)
			}
		}
		found = &item{}
		s.items[key] = found
	}
	found.until = now.Add(long)
	s.mu.Unlock()

	found.making.Lock()
	defer found.making.Unlock()
	if found.value == nil {
		found.value = make()
	}
	return found.value.(T)
}
