package aws

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// ledgerAge is the time for which the log keeps a claim's machine. By then the machine is written on the claim, or the claim is gone.
const ledgerAge = time.Hour

// launchLog records which machine was started for which claim, before it is written on the claim.
type launchLog struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards the fields below
	claims map[types.UID]*entry
	owners map[string]owner // by the machine's ID, i-…
	// reserved is the reservation of a machine, until the machine is gone.
	reserved map[string]string
}

// entry holds the log's data about one claim.
type entry struct {
	busy    chan struct{} // holds a token during a launch of the claim
	token   string        // the newest
	machine *engine.Machine
	used    time.Time
}

// owner is the claim for which a machine was started.
type owner struct {
	name string
	uid  types.UID
	at   time.Time
}

func newLaunchLog(clock clock.PassiveClock) *launchLog {
	return &launchLog{clock: clock, claims: map[types.UID]*entry{}, owners: map[string]owner{}, reserved: map[string]string{}}
}

// entry finds or makes the entry of a claim. The lock is held.
func (l *launchLog) entry(uid types.UID) *entry {
	now := l.clock.Now()
	e := l.claims[uid]
	if e == nil {
		e = &entry{busy: make(chan struct{}, 1)}
		l.claims[uid] = e
	}
	e.used = now
	return e
}

// forget drops old entries. Clean calls it.
func (l *launchLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for uid, e := range l.claims {
		if now.Sub(e.used) > ledgerAge && len(e.busy) == 0 {
			delete(l.claims, uid)
		}
	}
	for id, o := range l.owners {
		if now.Sub(o.at) > ledgerAge {
			delete(l.owners, id)
		}
	}
}

// lock prevents two launches of the same claim at the same time.
func (l *launchLog) lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	e := l.entry(uid)
	l.mu.Unlock()
	select {
	case e.busy <- struct{}{}:
		return func() { <-e.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// started returns the claim's machine, if one was started for it.
func (l *launchLog) started(uid types.UID) (engine.Machine, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entry(uid); e.machine != nil {
		return *e.machine, true
	}
	return engine.Machine{}, false
}

// noted records the token that was written on a claim.
func (l *launchLog) noted(uid types.UID, token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entry(uid).token = token
}

func (l *launchLog) token(uid types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entry(uid).token
}

// own records the owner of a machine. If several claims ask, the first gets the machine.
func (l *launchLog) own(id, name string, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, taken := l.owners[id]; taken {
		return have.uid == uid
	}
	l.owners[id] = owner{name, uid, l.clock.Now()}
	return true
}

func (l *launchLog) ownerOf(id string) (owner, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, found := l.owners[id]
	return o, found
}

// owned returns the machine that a claim owns, "" if there is none.
func (l *launchLog) owned(uid types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.owners {
		if o.uid == uid {
			return id
		}
	}
	return ""
}

func (l *launchLog) settle(claim *v1.NodeClaim, m engine.Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entry(claim.UID).machine = &m
}

// reserve records the reservation of a machine; release removes the record and returns the reservation.
func (l *launchLog) reserve(id, reservation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reservation != "" {
		l.reserved[id] = reservation
	}
}

func (l *launchLog) release(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	reservation := l.reserved[id]
	delete(l.reserved, id)
	return reservation
}
