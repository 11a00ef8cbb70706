package endtoend_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
)

// cornerLabel is on the pods and pools of a corner.
const cornerLabel = "tenon.test/corner"

// in is the world as one of several cases sees it that run side by side: confined to a pool of that name, and to pods that
// may run nowhere else.
func (w *world) in(t testing.TB, corner string) *world {
	mine := *w
	mine.TB, mine.corner = t, corner
	t.Cleanup(mine.leave)
	return &mine
}

// leave removes what the corner has; its machines go with their pool.
func (w *world) leave() {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	labels, in := client.MatchingLabels(w.cornerLabels()), client.InNamespace(metav1.NamespaceDefault)
	w.must(w.DeleteAllOf(w, &policyv1.PodDisruptionBudget{}, in, labels))
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, in, labels, background))
	w.must(w.DeleteAllOf(w, &v1.NodePool{}, labels, background))
}

func (w *world) cornerLabels() map[string]string {
	if w.corner == "" {
		return nil
	}
	return map[string]string{cornerLabel: w.corner}
}

// cornerOnly selects what belongs to the corner.
func (w *world) cornerOnly(list client.ObjectList) []client.ListOption {
	if w.corner == "" {
		return nil
	}
	if _, pods := list.(*corev1.PodList); pods {
		return []client.ListOption{client.MatchingLabels(w.cornerLabels())}
	}
	return []client.ListOption{client.MatchingLabels{v1.NodePoolLabelKey: w.corner}}
}

// settle keeps a Deployment's pods in the corner.
func (w *world) settle(d *appsv1.Deployment) {
	if w.corner == "" {
		return
	}
	d.Labels = w.cornerLabels()
	maps.Copy(d.Spec.Template.Labels, d.Labels)
	d.Spec.Template.Spec.NodeSelector = map[string]string{v1.NodePoolLabelKey: w.corner}
}

// cornerPool makes the corner's pool, of machines with 4 cores that nothing removes, and waits until it is ready.
func (w *world) cornerPool(change func(*v1.NodePool)) {
	w.Helper()
	w.pool(w.corner, func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{}
		p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{}
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			v1.Requirement{Key: "karpenter.kwok.sh/instance-cpu", Operator: v1.In, Values: []string{"4"}})
		if change != nil {
			change(p)
		}
	})
	w.poolReady(w.corner)
}

// workload makes a Deployment, called like the corner and so is its app, and waits until its pods run.
func (w *world) workload(replicas int32, cpu string, change func(*corev1.PodTemplateSpec)) {
	w.Helper()
	d := mixed(w.corner, replicas, cpu, nil)
	w.settle(d)
	if change != nil {
		change(&d.Spec.Template)
	}
	w.must(w.Create(w, d))
	w.running(int(replicas), 2*time.Minute)
	w.until(time.Minute, func() (bool, string) { // what follows counts on nodes that are ready for everything
		for _, c := range w.claims() {
			if !v1.IsTrue(&c, v1.ConditionInitialized) {
				return false, fmt.Sprintf("claim %s is not initialized: %+v", c.Name, c.Status.Conditions)
			}
		}
		return true, ""
	})
}

// budget allows no more than so many of the corner's pods to be away.
func (w *world) budget(maxUnavailable int) {
	w.Helper()
	away := intstr.FromInt(maxUnavailable)
	b := &policyv1.PodDisruptionBudget{ObjectMeta: inDefault(w.corner)}
	b.Labels = w.cornerLabels()
	b.Spec.Selector, b.Spec.MaxUnavailable = selectorOf(w.corner), &away
	w.must(w.Create(w, b))
	w.until(time.Minute, func() (bool, string) {
		w.must(w.Get(w, client.ObjectKeyFromObject(b), b))
		return b.Status.ObservedGeneration == b.Generation, "the PodDisruptionBudget was not looked at"
	})
}

// changePool changes the corner's pool.
func (w *world) changePool(change func(*v1.NodePool)) {
	w.Helper()
	var pool v1.NodePool
	w.must(w.Get(w, keyOf(w.corner), &pool))
	before := client.MergeFrom(pool.DeepCopy())
	change(&pool)
	w.must(w.Patch(w, &pool, before))
}

// drift changes the pool's template, so that every node that there is has drifted.
func (w *world) drift(generation string) {
	w.Helper()
	w.relabel(w.corner, generation)
}

// drifted reports how many nodes do not have what drift asked for.
func (w *world) drifted(generation string) int {
	w.Helper()
	n := 0
	for _, c := range w.claims() {
		if c.Labels["tenon.test/generation"] != generation {
			n++
		}
	}
	return n
}

// only is the corner's one claim.
func (w *world) only() *v1.NodeClaim {
	w.Helper()
	claims := w.claims()
	if len(claims) != 1 {
		w.Fatalf("there are %d claims, want one", len(claims))
	}
	return &claims[0]
}

// goes waits until a claim has gone.
func (w *world) goes(claim *v1.NodeClaim, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		for _, c := range w.claims() {
			if c.UID == claim.UID {
				return false, fmt.Sprintf("claim %s is there: deleted %v, conditions %+v", c.Name, c.DeletionTimestamp, c.Status.Conditions)
			}
		}
		return true, ""
	})
}

// event waits for an event about any object of the name, with all the parts in its message.
func (w *world) event(patience time.Duration, object, reason string, parts ...string) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		var events corev1.EventList
		w.must(w.List(w, &events, client.MatchingFields{"involvedObject.name": object}))
		var heard []string
		for _, e := range events.Items {
			if e.Reason == reason && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(e.Message, part) }) {
				return true, ""
			}
			heard = append(heard, e.Reason+": "+e.Message)
		}
		return false, fmt.Sprintf("no event %s about %s with %q; there are %q", reason, object, parts, heard)
	})
}

// quiet waits until no claim has come, gone or begun to go for so long, and nothing is on its way.
func (w *world) quiet(length, patience time.Duration) {
	w.Helper()
	last, since := "", time.Now()
	w.until(patience, func() (bool, string) {
		var state, busy []string
		for _, c := range w.claims() {
			state = append(state, c.Name)
			if c.DeletionTimestamp != nil || !v1.IsTrue(&c, v1.ConditionInitialized) || v1.IsTrue(&c, v1.ConditionDisruptionReason) {
				busy = append(busy, c.Name)
			}
		}
		for _, p := range w.pods() {
			if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
				busy = append(busy, p.Name)
			}
		}
		slices.Sort(state)
		if text := strings.Join(state, " "); text != last || len(busy) > 0 {
			last, since = text, time.Now()
		}
		return time.Since(since) >= length, fmt.Sprintf("not quiet: %d claims, busy: %q\n%s", len(state), busy, w.waiting(3))
	})
}

// whole checks that there is one node for each claim, each with a machine of its own, all open and none idle.
func (w *world) whole() {
	w.Helper()
	claims, nodes := w.claims(), w.nodes()
	machines := map[string]string{}
	for _, c := range claims {
		machines[c.Status.ProviderID] = c.Name
		if _, marked := inventory.MarkOf(&c); marked || c.DeletionTimestamp != nil || v1.IsTrue(&c, v1.ConditionDisruptionReason) {
			w.Errorf("claim %s is on its way out: %v, %+v", c.Name, c.Annotations, c.Status.Conditions)
		}
	}
	for _, n := range nodes {
		if machines[n.Spec.ProviderID] == "" {
			w.Errorf("node %s is a machine that no claim has: %s", n.Name, n.Spec.ProviderID)
		}
		if len(n.Spec.Taints) > 0 {
			w.Errorf("node %s is not open: %+v", n.Name, n.Spec.Taints)
		}
	}
	if len(nodes) != len(claims) || len(machines) != len(claims) {
		w.Errorf("%d nodes, %d claims, %d machines", len(nodes), len(claims), len(machines))
	}
	if idle := w.idle(); len(idle) > 0 {
		w.Errorf("nodes run nothing: %q", idle)
	}
}

// perHour is what the nodes cost.
func (w *world) perHour() float64 {
	w.Helper()
	sum := 0.0
	for _, n := range w.nodes() {
		usd, err := strconv.ParseFloat(n.Labels["eks-node-viewer/instance-price"], 64)
		w.must(err)
		sum += usd
	}
	return sum
}
