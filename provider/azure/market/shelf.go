package market

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/soldout"
)

const (
	// keptFor is the time for which an unused catalog is kept, mostKept the largest number of catalogs.
	keptFor  = 15 * time.Minute
	mostKept = 32
)

// shelf caches the latest catalog for each key of settings. It drops catalogs that no caller has asked for in a while.
type shelf struct {
	clock clock.PassiveClock
	mu    sync.Mutex // guards items, their times, and last
	items map[string]*item
	last  []engine.InstanceType // the last list that was made, which the next one shares values with
}

// item is a catalog, with the versions of its inputs.
type item struct {
	asked time.Time // last

	making  sync.Mutex // held while it is made; guards the fields below
	made    listVersion
	types   []engine.InstanceType
	left    []assortment.Left
	shownAs shownVersion
	shown   []engine.InstanceType
}

// listVersion is the version of the inputs of a list of sizes. shownVersion is the version of the inputs of a list with sold-out marks. The zero
// value means that there is no list yet.
type (
	listVersion  struct{ stock, memory int }
	shownVersion struct {
		list  listVersion
		marks int
	}
)

func newShelf(clock clock.PassiveClock) *shelf {
	return &shelf{clock: clock, items: map[string]*item{}}
}

// item returns the item of a key, a new one if there is none.
func (s *shelf) item(key string) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	found := s.items[key]
	if found == nil {
		found = &item{}
		oldest := ""
		for k, i := range s.items {
			if now.Sub(i.asked) > keptFor {
				delete(s.items, k)
			} else if oldest == "" || i.asked.Before(s.items[oldest].asked) || i.asked.Equal(s.items[oldest].asked) && k < oldest {
				oldest = k
			}
		}
		if len(s.items) >= mostKept {
			delete(s.items, oldest)
		}
		s.items[key] = found
	}
	found.asked = now
	return found
}

// shared makes a list share values with the list that was made before it.
func (s *shelf) shared(types []engine.InstanceType) []engine.InstanceType {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	share(types, last)
	s.mu.Lock()
	s.last = types
	s.mu.Unlock()
	return types
}

// keyOf returns the same text for the same settings.
func keyOf(s size.Settings) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("write %T: %v", s, err)) // they are plain values
	}
	return string(text)
}

// list makes the list of an item if its inputs have changed. making is held.
func (m *Market) list(i *item, s *stock, settings *size.Settings) {
	version := listVersion{s.edit + 1, m.Memory.version()}
	if i.made == version {
		return
	}
	types, left := assortment.List(s.sizes, settings, s.table, m.Memory.least())
	i.types, i.left = m.shelf.shared(types), left
	if len(s.left) > 0 {
		i.left = append(i.left, s.left...)
		slices.SortFunc(i.left, func(a, b assortment.Left) int { return strings.Compare(a.Size, b.Size) })
	}
	i.made = version
}

// leftOut returns the sizes that are left out for these settings.
func (m *Market) leftOut(settings size.Settings) []assortment.Left {
	i := m.shelf.item(keyOf(settings))
	i.making.Lock()
	defer i.making.Unlock()
	m.list(i, m.known(), &settings)
	return slices.Clone(i.left)
}

// shown returns the catalog for some settings, with sold-out offerings marked.
func (m *Market) shown(settings size.Settings) []engine.InstanceType {
	i := m.shelf.item(keyOf(settings))
	i.making.Lock()
	defer i.making.Unlock()
	s := m.known()
	m.list(i, s, &settings)
	version := shownVersion{i.made, m.marks.Edit()}
	if i.shownAs != version {
		i.shown, i.shownAs = m.withoutSoldOut(s, i.types), version
	}
	return i.shown
}

// withoutSoldOut returns a list with sold-out offerings marked. Types without marks are shared with the original. Labels stay, because a
// machine's possible labels do not depend on capacity.
func (m *Market) withoutSoldOut(s *stock, types []engine.InstanceType) []engine.InstanceType {
	if m.marks.None() {
		return types
	}
	out := slices.Clone(types)
	for i := range out {
		at := s.index[out[i].Name]
		attempt, cloned := soldout.Attempt{Size: s.sizes[at]}, false
		for j := range out[i].Offerings {
			o := &out[i].Offerings[j]
			attempt.Zone, attempt.CapacityType = o.Zone, o.CapacityType
			if m.marks.Reason(attempt) == "" {
				continue
			}
			if !cloned {
				out[i].Offerings = slices.Clone(out[i].Offerings)
				o, cloned = &out[i].Offerings[j], true
			}
			o.SoldOut = true
		}
	}
	return out
}
