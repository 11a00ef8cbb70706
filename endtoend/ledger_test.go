package endtoend_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// ledger remembers every NodeClaim that there has been since it was opened, as it was last: a machine that came and went
// was paid for too.
type ledger struct {
	mu      sync.Mutex // guards the fields below
	claims  map[types.UID]*v1.NodeClaim
	gone    map[types.UID]bool
	changed time.Time // when a claim last came, began to go, or went
	most    int       // of claims that were on their way out at once
	hurried []string  // claims that went before their replacements were ready
}

// openLedger watches claims until the test ends. It starts before the first claim of the test is made.
func (w *world) openLedger() *ledger {
	w.Helper()
	l := &ledger{claims: map[types.UID]*v1.NodeClaim{}, gone: map[types.UID]bool{}}
	w.follow(&v1.NodeClaimList{}, func(kind watch.EventType, o client.Object) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.enter(kind, o.(*v1.NodeClaim))
	})
	return l
}

// enter writes a claim down as it is now.
func (l *ledger) enter(kind watch.EventType, claim *v1.NodeClaim) {
	before := l.claims[claim.UID]
	l.claims[claim.UID] = claim
	l.gone[claim.UID] = kind == watch.Deleted
	begins := claim.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil)
	if kind != watch.Modified || begins {
		l.changed = time.Now()
	}
	if begins {
		mark, _ := inventory.MarkOf(claim)
		for _, name := range mark.Replacements {
			if !l.ready(name) {
				l.hurried = append(l.hurried, fmt.Sprintf("%s before %s", claim.Name, name))
			}
		}
	}
	leaving := 0
	for uid, c := range l.claims {
		if !l.gone[uid] && (c.DeletionTimestamp != nil || v1.IsTrue(c, v1.ConditionDisruptionReason)) {
			leaving++
		}
	}
	l.most = max(l.most, leaving)
}

// ready reports whether a claim of that name has ever been initialized: a replacement may have gone again since.
func (l *ledger) ready(name string) bool {
	for _, c := range l.claims {
		if c.Name == name && v1.IsTrue(c, v1.ConditionInitialized) {
			return true
		}
	}
	return false
}

// last is when a claim last came, began to go, or went.
func (l *ledger) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// check says what went wrong with the order of things, and how many claims were on their way out at once.
func (l *ledger) check(t testing.TB) (mostAtOnce int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.hurried) > 0 {
		t.Errorf("claims went before their replacements were ready: %q", l.hurried)
	}
	return l.most
}

// of is the claim of that UID as it was last.
func (l *ledger) of(uid types.UID) *v1.NodeClaim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims[uid]
}

// first returns the oldest claim in its latest state.
func (l *ledger) first(t testing.TB) *v1.NodeClaim {
	t.Helper()
	claims := l.all(t)
	if len(claims) == 0 {
		t.Fatal("there has been no claim")
	}
	return slices.MinFunc(claims, func(a, b *v1.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// all lists the claims by name.
func (l *ledger) all(t testing.TB) []*v1.NodeClaim {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Collect(maps.Values(l.claims))
	slices.SortFunc(out, func(a, b *v1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// again lists the machines that nobody but pods with a machine was asked for: too soon, while the first machine of each had
// yet to open, or later, because kube-scheduler had given their room to others. What else a machine takes along may have been
// planned elsewhere: that starts no machine.
func (l *ledger) again(t testing.TB) (tooSoon, displaced []string) {
	t.Helper()
	claims := l.all(t)
	slices.SortStableFunc(claims, func(a, b *v1.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	first := map[string]*v1.NodeClaim{}
	for _, claim := range claims {
		pods := kube.PlannedPods(claim)
		var before []string
		closed := 0
		for _, uid := range pods {
			if had := first[uid]; had != nil {
				before = append(before, fmt.Sprintf("pod %s: %s", uid, had.Name))
				ready := v1.GetCondition(had, v1.ConditionInitialized)
				if ready == nil || ready.Status != metav1.ConditionTrue || claim.CreationTimestamp.Before(&ready.LastTransitionTime) {
					closed++
				}
			}
			first[uid] = claim
		}
		what := fmt.Sprintf("%s after %q", claim.Name, before)
		switch {
		case len(pods) == 0 || len(before) < len(pods):
		case closed == len(pods):
			tooSoon = append(tooSoon, what)
		default:
			displaced = append(displaced, what)
		}
	}
	return tooSoon, displaced
}

// perHour is what all machines cost that were ever started.
func (l *ledger) perHour(t testing.TB, book *inventory.PriceBook) float64 {
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
