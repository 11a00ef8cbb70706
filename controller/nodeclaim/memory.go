package nodeclaim

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/engine/lifecycle"
)

// memory is the data of one claim that its steps keep for later steps. Without it the results are the same, only later: calls are
// repeated, and failed calls are tried again at once.
type memory struct {
	// podLeft and briefPodLeft are when a pod was last seen to vanish, in Unix nanoseconds. The watch writes them.
	podLeft, briefPodLeft atomic.Int64

	// The fields below belong to the only goroutine that works on the claim.

	owner      types.UID               // the claim or node that this is about
	released   bool                    // the owner has no finalizer of Tenon any more; the watch will show its deletion
	written    map[types.UID]string    // resource versions that were written, by object
	deleted    map[types.UID]time.Time // nodes that were deleted, and when
	evictions  map[evictionKey]*pacing
	launches   pacing
	unlaunched bool // the cloud said that it started nothing for this claim
	looked     time.Time
	presence   lifecycle.Presence
	terminated bool // the machine was told to stop
}

// pacing spreads out attempts at something that fails.
type pacing struct {
	failures int
	next     time.Time
}

// wait returns the time until the next attempt.
func (p *pacing) wait(now time.Time) time.Duration { return p.next.Sub(now) }

// failed puts off the next attempt, longer each time.
func (p *pacing) failed(now time.Time, first, most time.Duration) time.Duration {
	wait := min(first<<min(p.failures, 16), most)
	p.failures++
	p.next = now.Add(wait)
	return wait
}

// wrote remembers the version after a write.
func (m *memory) wrote(object client.Object) {
	m.written[object.GetUID()] = object.GetResourceVersion()
}

// isStale reports whether the object was read before a write of this process. The watch will bring the newer version.
func (m *memory) isStale(object client.Object) bool {
	wrote, err := strconv.ParseUint(m.written[object.GetUID()], 10, 64)
	if err != nil {
		return false
	}
	read, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return err == nil && read < wrote
}

// awaits reports whether the node was deleted a moment ago, and was read before that.
func (m *memory) awaits(node *corev1.Node, now time.Time) bool {
	at, ok := m.deleted[node.UID]
	return ok && node.DeletionTimestamp == nil && now.Sub(at) < overtaken
}

func (m *memory) podGone(brief bool, now time.Time) {
	if brief {
		m.briefPodLeft.Store(now.UnixNano())
	} else {
		m.podLeft.Store(now.UnixNano())
	}
}

func timeOf(nanoseconds *atomic.Int64) time.Time {
	if at := nanoseconds.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

type memories struct {
	mu     sync.Mutex // guards byName, not what the memories hold
	byName map[string]*memory
}

func (m *memories) of(name string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := m.byName[name]
	if mem == nil {
		mem = &memory{written: map[types.UID]string{}, deleted: map[types.UID]time.Time{}, evictions: map[evictionKey]*pacing{}}
		m.byName[name] = mem
	}
	return mem
}

// owned returns the memory of one object, and drops the memory of an earlier object of the same name.
func (m *memories) owned(name string, owner types.UID) *memory {
	mem := m.of(name)
	if mem.owner != "" && mem.owner != owner {
		m.forget(name)
		mem = m.of(name)
	}
	mem.owner = owner
	return mem
}

func (m *memories) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, name)
}
