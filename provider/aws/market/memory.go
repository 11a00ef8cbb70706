package market

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/images"
)

// memoryAge is the time for which a node's memory is remembered.
const memoryAge = 60 * 24 * time.Hour

// Memory remembers the memory of nodes, by instance type and image. It replaces an estimate that is some per cent too low, so that no pod is
// promised memory that the node does not have.
type Memory struct {
	clock clock.PassiveClock

	mu   sync.Mutex // guards seen
	seen map[typeAndImage]sight
}

type typeAndImage struct{ kind, image string }

type sight struct {
	bytes int64
	until time.Time
}

func newMemory(clock clock.PassiveClock) *Memory {
	return &Memory{clock: clock, seen: map[typeAndImage]sight{}}
}

// Saw records the memory of a node. Of several nodes, the one with the least memory counts.
func (m *Memory) Saw(kind, image string, bytes int64) {
	if kind == "" || image == "" || bytes <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	key := typeAndImage{kind, image}
	if old, known := m.seen[key]; known && now.Before(old.until) && old.bytes < bytes {
		return
	}
	m.seen[key] = sight{bytes, now.Add(memoryAge)}
}

// of returns the known memory of nodes that were started from these images, by type. If several of the images fit a type, it uses only the
// memory of nodes with the first of them.
func (m *Memory) of(amis []awsv1.AMI, types func(kind string) *engine.InstanceType) map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	out := map[string]int64{}
	for key, s := range m.seen {
		if !now.Before(s.until) {
			delete(m.seen, key)
			continue
		}
		if !slices.ContainsFunc(amis, func(i awsv1.AMI) bool { return i.ID == key.image }) {
			continue
		}
		t := types(key.kind)
		if t == nil {
			continue
		}
		if image := images.For(amis, t); image != nil && image.ID == key.image {
			out[key.kind] = s.bytes
		}
	}
	return out
}

// textOf returns the same text for the same memory of the same types.
func textOf(learned map[string]int64) string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(learned)) {
		b.WriteString(kind + "=" + strconv.FormatInt(learned[kind], 10) + ",")
	}
	return b.String()
}
