package keda_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// TestNightsCostNothing: KEDA's cron scaler takes a Deployment to 0 in the evening and back in the morning. Days and nights last a
// minute each. Each morning the same machines are bought once, and in the evening nothing is.
func TestNightsCostNothing(t *testing.T) {
	w := newWorld(t)
	log := w.startTenon()
	w.startKEDA("")
	objects := append(w.readObjects("../../examples/keda/nodepool.yaml"), w.readObjects("../../examples/keda/office.yaml")...)
	morning := time.Now().Truncate(time.Minute).Add(time.Minute)
	if time.Until(morning) < 20*time.Second { // before it, KEDA has to know
		morning = morning.Add(time.Minute)
	}
	w.must(setHours(objects, morning))
	bought := w.watchClaims("office")
	w.applyAll(objects)
	defer w.removeAll(objects)

	w.awaitPods("office", 40, time.Until(morning)+50*time.Second)
	t.Logf("morning: 40 pods run %.0f s after it began:\n%s", time.Since(morning).Seconds(), w.tenonNodes())
	machines, day := len(w.claims("office")), w.bill()

	w.awaitPods("office", 0, time.Until(morning)+110*time.Second)
	w.until(20*time.Second, func() (bool, string) {
		left := len(w.claims("office"))
		return left == 0, fmt.Sprintf("%d machines are left", left)
	})
	night := w.bill()
	t.Logf("night: nothing is left %.0f s after it began, %s instead of %s", time.Since(morning.Add(time.Minute)).Seconds(), night, day)
	if night != "$0.0000/h" {
		t.Errorf("at night the nodes cost %s", night)
	}

	next := morning.Add(2 * time.Minute)
	w.awaitPods("office", 40, time.Until(next)+50*time.Second)
	t.Logf("the next morning: 40 pods run %.0f s after it began", time.Since(next).Seconds())
	if again := w.bill(); again != day {
		t.Errorf("the next morning the nodes cost %s, want %s", again, day)
	}
	if all := bought(); len(all) != 2*machines {
		t.Errorf("%d machines have been bought, want %d each morning: %v", len(all), machines, all)
	}
	if lines := w.errorsIn(log); len(lines) > 0 {
		t.Errorf("Tenon has logged %d errors, the first: %s", len(lines), lines[0])
	}
}

// setHours makes the hours of the ScaledObject two minutes, with a minute of night between them.
func setHours(objects []*unstructured.Unstructured, morning time.Time) error {
	at := func(minutes ...int) string {
		var list []string
		for _, m := range minutes {
			list = append(list, fmt.Sprint(morning.Add(time.Duration(m)*time.Minute).UTC().Minute()))
		}
		return strings.Join(list, ",") + " * * * *"
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ScaledObject" })
	triggers, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "triggers")
	if err != nil {
		return err
	}
	hours := triggers[0].(map[string]any)["metadata"].(map[string]any)
	hours["timezone"], hours["start"], hours["end"] = "UTC", at(0, 2), at(1, 3)
	return unstructured.SetNestedSlice(objects[i].Object, triggers, "spec", "triggers")
}

// watchClaims notes every machine that is bought for a pool from now on, and returns how to read their names.
func (w *world) watchClaims(pool string) func() []string {
	w.Helper()
	c, err := client.NewWithWatch(w.playground.RESTConfig(), client.Options{Scheme: w.Scheme()})
	w.must(err)
	events, err := c.Watch(w, &v1.NodeClaimList{}, client.MatchingLabels{v1.NodePoolLabelKey: pool})
	w.must(err)
	w.Cleanup(events.Stop)
	var mu sync.Mutex
	names := map[string]bool{}
	go func() {
		for e := range events.ResultChan() {
			if claim, ok := e.Object.(*v1.NodeClaim); ok && e.Type == watch.Added {
				mu.Lock()
				names[claim.Name] = true
				mu.Unlock()
			}
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(names))
	}
}

// bill is what tenon nodes says that all nodes cost.
func (w *world) bill() string {
	w.Helper()
	_, after, _ := strings.Cut(w.tenonNodes(), ", ")
	usd, _, _ := strings.Cut(after, ",")
	return usd
}
