package endtoend_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

// ledger remembers every NodeClaim that there has been since it was opened, as it was last: a machine that came and went
// was paid for too.
type ledger struct {
	mu     sync.Mutex // guards the fields below
	claims map[types.UID]*v1.NodeClaim
	err    error
}

// openLedger watches claims until the test ends. It starts before the first claim of the test is made.
func (w *world) openLedger() *ledger {
	w.Helper()
	c, err := client.NewWithWatch(w.playground.RESTConfig(), client.Options{Scheme: cluster.Scheme()})
	w.must(err)
	var before v1.NodeClaimList
	w.must(c.List(w, &before))
	l := &ledger{claims: map[types.UID]*v1.NodeClaim{}}
	ctx, cancel := context.WithCancel(w)
	done := make(chan struct{})
	w.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		err := l.follow(ctx, c, before.ResourceVersion)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}()
	return l
}

// follow goes on where the last watch ended: the API server ends those that cannot keep up with it, and a test on a busy
// computer is one of them.
func (l *ledger) follow(ctx context.Context, c client.WithWatch, version string) error {
	for ctx.Err() == nil {
		watched, err := c.Watch(ctx, &v1.NodeClaimList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			return fmt.Errorf("watch the claims from %s on: %w", version, err)
		}
		for event := range watched.ResultChan() {
			claim, ok := event.Object.(*v1.NodeClaim)
			if !ok {
				watched.Stop()
				return fmt.Errorf("watch the claims from %s on: %v", version, event.Object)
			}
			version = claim.ResourceVersion
			l.mu.Lock()
			l.claims[claim.UID] = claim
			l.mu.Unlock()
		}
	}
	return nil
}

// all lists the claims by name.
func (l *ledger) all(t testing.TB) []*v1.NodeClaim {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		t.Fatal(l.err)
	}
	out := slices.Collect(maps.Values(l.claims))
	slices.SortFunc(out, func(a, b *v1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// again lists the pods that a second machine was asked for: too soon, while the first one had yet to open and would have
// taken them, or later, because kube-scheduler had given their room to others.
func (l *ledger) again(t testing.TB) (tooSoon, displaced []string) {
	t.Helper()
	claims := l.all(t)
	slices.SortStableFunc(claims, func(a, b *v1.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	first := map[string]*v1.NodeClaim{}
	for _, claim := range claims {
		for _, uid := range engine.PlannedPods(claim) {
			before := first[uid]
			first[uid] = claim
			if before == nil {
				continue
			}
			what := fmt.Sprintf("pod %s: %s, then %s", uid, before.Name, claim.Name)
			ready := v1.GetCondition(before, v1.ConditionInitialized)
			if ready == nil || ready.Status != metav1.ConditionTrue || claim.CreationTimestamp.Before(&ready.LastTransitionTime) {
				tooSoon = append(tooSoon, what)
			} else {
				displaced = append(displaced, what)
			}
		}
	}
	return tooSoon, displaced
}

// perHour is what all machines cost that were ever started.
func (l *ledger) perHour(t testing.TB, book *engine.PriceBook) float64 {
	t.Helper()
	sum := 0.0
	for _, claim := range l.all(t) {
		usd, known := book.Price(claim.Labels, claim.Spec.NodeClassRef)
		if !known {
			t.Fatalf("claim %s has no price: %v", claim.Name, claim.Labels)
		}
		sum += usd
	}
	return sum
}
