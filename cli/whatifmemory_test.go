package cli

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
)

// heap is what is in use once all garbage is collected.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what is kept for reuse goes with the second collection, what has a finalizer after that
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A change that takes too long to plan is given up. Once it has stopped, nothing of it is left in the memory of the server.
func TestWhatIfGivesBackTheMemoryOfWhatItGivesUp(t *testing.T) { // alone: it measures the heap of the process
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags(), files: []string{snapshotFile(t, strings.Replace(whatIfCluster, " limits=cpu:8", "", 1))}}}
	source := o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&strings.Builder{}))
	var held atomic.Int64
	reader, err := dashboard.NewReader(t.Context(), func(ctx context.Context) (*dashboard.Picture, error) {
		p, err := source(ctx)
		if err != nil {
			return nil, err
		}
		try := p.Try
		p.Try = func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
			return try(text, func() bool { // the engine asks in the midst of its work: there it stays until the limit has come
				for !stop() {
					runtime.Gosched()
				}
				held.CompareAndSwap(0, heap())
				return true
			})
		}
		return p, nil
	}, 0, clock.RealClock{})
	must(t, err)
	handler, err := dashboard.Handler(reader, dashboard.Options{Tries: 1, TryLimit: 100 * time.Millisecond})
	must(t, err)
	giveUp := func() (most, after int64) {
		held.Store(0)
		page := whatIfPage(t, handler, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: late, namespace: shop}\nspec: {replicas: 10000}\n")
		if !strings.Contains(page, "there was no answer within 0.1 s, so it was given up") {
			t.Errorf("the page does not say that it was given up: %s", page)
		}
		if page := whatIfPage(t, handler, "kind: 1"); !strings.Contains(page, "nothing was planned") { // there is one turn: the other has ended
			t.Errorf("the next one: %s", page)
		}
		return held.Load(), heap()
	}
	_, before := giveUp() // what is made once stays
	for range 5 {
		most, after := giveUp()
		if most-before < 8<<20 {
			t.Errorf("a plan that is given up holds %d bytes, so that this says nothing", most-before)
		}
		if after-before > (most-before)/10 {
			t.Errorf("of %d bytes that a plan held %d are left after it was given up", most-before, after-before)
		}
	}
}
