// Package fresh caches answers that are expensive to get, for as long as they may be believed. Its callers choose the answers and the time.
package fresh

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errorAge is the time for which an error is kept, because more calls do not help a service that fails.
const errorAge = 5 * time.Second

// Cache keeps values by key for a limited time. At most one load of a key runs at a time; other callers for the key wait for it. Errors are
// kept for errorAge. The zero value is not ready for use.
type Cache[K comparable, V any] struct {
	clock clock.PassiveClock
	age   time.Duration

	mu      sync.Mutex // guards entries and their contents, not the loading
	entries map[K]*entry[V]
}

type entry[V any] struct {
	loading chan struct{} // holds a token during a load
	value   V
	until   time.Time // zero: no value has been loaded
	err     error
	erred   time.Time // err is kept until then
}

// New makes a cache that keeps values for age.
func New[K comparable, V any](clock clock.PassiveClock, age time.Duration) *Cache[K, V] {
	return &Cache[K, V]{clock: clock, age: age, entries: map[K]*entry[V]{}}
}

// Get returns the value of a key. It calls load if the value is unknown or too old.
func (c *Cache[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, error)) (V, error) {
	e, value, fresh, err := c.entry(key)
	if fresh || err != nil {
		return value, err
	}
	select {
	case e.loading <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-e.loading }()
	if _, value, fresh, err := c.entry(key); fresh || err != nil { // another caller has loaded the value in the meantime
		return value, err
	}
	value, err = load(ctx)
	switch {
	case err == nil:
		c.Put(key, value)
	case ctx.Err() == nil: // another caller may still want the value
		c.fail(e, err)
	}
	return value, err
}

func (c *Cache[K, V]) fail(e *entry[V], err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.err, e.erred = err, c.clock.Now().Add(errorAge)
}

// Peek returns the value of a key if it is known and not too old.
func (c *Cache[K, V]) Peek(key K) (value V, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || !c.clock.Now().Before(e.until) {
		return value, false
	}
	return e.value, true
}

// Put stores a value.
func (c *Cache[K, V]) Put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	e := c.entries[key]
	if e == nil {
		e = newEntry[V]()
		c.entries[key] = e
	}
	e.value, e.until, e.err = value, now.Add(c.age), nil
	for k, e := range c.entries {
		if !now.Before(e.until) && !now.Before(e.erred) && len(e.loading) == 0 {
			delete(c.entries, k)
		}
	}
}

// Forget marks the value of a key as too old.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		e.until = time.Time{}
	}
}

// Each calls f for every value that is not too old, in no fixed order.
func (c *Cache[K, V]) Each(f func(K, V)) {
	c.mu.Lock()
	known := make(map[K]V, len(c.entries))
	for k, e := range c.entries {
		if c.clock.Now().Before(e.until) {
			known[k] = e.value
		}
	}
	c.mu.Unlock()
	for k, v := range known {
		f(k, v)
	}
}

func (c *Cache[K, V]) entry(key K) (e *entry[V], value V, fresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[key]
	if e == nil {
		e = newEntry[V]()
		c.entries[key] = e
	}
	now := c.clock.Now()
	if now.Before(e.until) {
		return e, e.value, true, nil
	}
	if e.err != nil && now.Before(e.erred) {
		return e, value, false, e.err
	}
	return e, value, false, nil
}

func newEntry[V any]() *entry[V] { return &entry[V]{loading: make(chan struct{}, 1)} }
