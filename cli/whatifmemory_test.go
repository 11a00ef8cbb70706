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

// heap returns the size of the heap after all garbage is collected.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // pools are emptied by the second collection, objects with finalizers later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A change that takes too long to plan is abandoned. After it has stopped, the server keeps none of its memory.
func TestWhatIfGivesBackTheMemoryOfWhatItGivesUp(t *testing.T) { // not in parallel, because it measures the heap of the process
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
			return try(text, func() bool { // the engine calls this during its work: it stays there until the limit has passed
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
		if page := whatIfPage(t, handler, "kind: 1"); !strings.Contains(page, "nothing was planned") { // the other plan has ended
			t.Errorf("the next one: %s", page)
		}
		return held.Load(), heap()
	}
	_, before := giveUp() // values that are made once stay
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
