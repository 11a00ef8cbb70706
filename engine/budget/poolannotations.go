package budget

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// PoolRules holds the rules in a pool's annotations. An unreadable annotation has the harmless effect, and is a problem.
type PoolRules struct {
	Pool *v1.NodePool
	// paused stops voluntary disruption; until is the zero time for a pause without an end.
	paused      bool
	until       time.Time
	pauseReason string
	cluster     engine.Reason // why the whole cluster is paused, the zero Reason if it is not
	// NoLaunch is true for a pool that starts no more machines, Retired for a pool whose nodes go as soon as they are empty.
	NoLaunch, Retired bool
	// Observed is true if drift is reported but not acted on.
	Observed bool
	Zone     *time.Location
	// Closed is the problem of an unreadable budget, because of which the budgets allow nothing; empty if all budgets can be read.
	Closed string
	// Replacing and Deleting bound the nodes that go with and without a replacement; nil means no bound.
	Replacing, Deleting *VerbBudgets
	// Payback is the time within which a move must pay for itself, 0 for the default; NoMoves is true if it cannot be read.
	Payback  time.Duration
	NoMoves  bool
	Problems []engine.Reason
	times    map[*v1.Budget]*budgetTimes // filled on demand
}

// VerbBudgets are the budgets for nodes with a replacement, or for nodes without one.
type VerbBudgets struct {
	Budgets []v1.Budget
	problem string
}

// RulesOf reads the pool's annotations.
func RulesOf(s *engine.Snapshot, pool *v1.NodePool) *PoolRules {
	r := &PoolRules{Pool: pool, Zone: time.UTC, pauseReason: pool.Annotations[v1.PauseReasonAnnotationKey]}
	r.cluster = clusterPause(s, pool.Name)
	r.readPause(s.Now)
	r.readRetire()
	r.readDrift()
	r.readZone(s)
	r.Replacing = r.readBudgets(v1.ReplaceBudgetsAnnotationKey)
	r.Deleting = r.readBudgets(v1.DeleteBudgetsAnnotationKey)
	r.readPayback()
	if _, ok := PricePatience(pool); !ok {
		r.wrong(v1.PricePatienceAnnotationKey, "a duration such as 5m, or 0s for any price at once")
	}
	if _, ok := kube.MinMemoryForPods(pool, 0); !ok {
		r.wrong(v1.MinMemoryAnnotationKey, "an amount of memory such as 512Mi, or 0 for any machine")
	}
	if _, ok := kube.LearnedTaints(pool, s.Now); !ok {
		r.wrong(v1.LearnedTaintsAnnotationKey, "a list that the controller has written: remove the annotation, it is learned anew")
	}
	return r
}

// AnnotationProblems returns the unreadable annotations of the pool, with the expected form.
func AnnotationProblems(s *engine.Snapshot, pool *v1.NodePool) []engine.Reason {
	return RulesOf(s, pool).Problems
}

// PoolPaused returns why the pool, or the whole cluster, is paused; the zero Reason means that it is not.
func PoolPaused(s *engine.Snapshot, pool *v1.NodePool) engine.Reason { return RulesOf(s, pool).Pause() }

func (r *PoolRules) wrong(key, want string) {
	r.Problems = append(r.Problems, engine.Reason{
		Code: engine.UnreadableAnnotation, NodePool: r.Pool.Name, Key: key, Need: want, Have: fmt.Sprintf("%q", r.Pool.Annotations[key]),
	})
}

func (r *PoolRules) readPause(now time.Time) {
	text, ok := r.Pool.Annotations[v1.PauseAnnotationKey]
	paused, until, err := ReadPause(text, now)
	r.paused, r.until = ok && paused, until
	if ok && err != nil {
		r.wrong(v1.PauseAnnotationKey, err.Error())
	}
}

// ReadPause reads "true" or the end of a pause. An unreadable text pauses.
func ReadPause(text string, now time.Time) (paused bool, until time.Time, err error) {
	switch strings.TrimSpace(text) {
	case "true":
		return true, time.Time{}, nil
	case "false", "":
		return false, time.Time{}, nil
	}
	until, err = time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil {
		return true, time.Time{}, fmt.Errorf("true, or a time such as 2026-03-01T06:00:00Z")
	}
	return now.Before(until), until, nil
}

// Pause returns why nothing of the pool is disrupted.
func (r *PoolRules) Pause() engine.Reason {
	switch {
	case !r.cluster.OK():
		return r.cluster
	case !r.paused:
		return engine.Reason{}
	}
	return pauseReason(r.Pool.Name, "the pool", r.pauseReason, r.until)
}

// PausingNamespace returns the namespace that can pause the whole cluster, by the annotations that pause a pool. It returns nil if the snapshot has
// no such namespace.
func PausingNamespace(s *engine.Snapshot) *corev1.Namespace {
	i := slices.IndexFunc(s.Namespaces, func(n *corev1.Namespace) bool { return n.Name == v1.PausingNamespace })
	if i < 0 {
		return nil
	}
	return s.Namespaces[i]
}

// clusterPause returns why nothing in the cluster is disrupted, as a reason of the pool.
func clusterPause(s *engine.Snapshot, pool string) engine.Reason {
	n := PausingNamespace(s)
	if n == nil {
		return engine.Reason{}
	}
	paused, until, _ := ReadPause(n.Annotations[v1.PauseAnnotationKey], s.Now)
	if !paused {
		return engine.Reason{}
	}
	return pauseReason(pool, "the cluster", n.Annotations[v1.PauseReasonAnnotationKey], until)
}

func pauseReason(pool, what, why string, until time.Time) engine.Reason {
	reason := engine.Reason{Code: engine.Paused, NodePool: pool, Key: what}
	if !until.IsZero() {
		reason.Need = " until " + until.UTC().Format(time.RFC3339)
	}
	if why != "" {
		reason.Have = ": " + why
	}
	return reason
}

func (r *PoolRules) readRetire() {
	switch text := r.Pool.Annotations[v1.RetireAnnotationKey]; text {
	case "", "false":
	case "true":
		r.NoLaunch, r.Retired = true, true
	default:
		r.NoLaunch = true
		r.wrong(v1.RetireAnnotationKey, "true")
	}
}

func (r *PoolRules) readDrift() {
	text, ok := r.Pool.Annotations[v1.DriftAnnotationKey]
	r.Observed = ok
	if ok && text != v1.DriftObserve {
		r.wrong(v1.DriftAnnotationKey, v1.DriftObserve)
	}
}

func (r *PoolRules) readZone(s *engine.Snapshot) {
	name, ok := r.Pool.Annotations[v1.BudgetTimeZoneAnnotationKey]
	if !ok {
		return
	}
	if zone := zoneNamed(s, name); zone != nil {
		r.Zone = zone
		return
	}
	r.Closed = fmt.Sprintf("annotation %s is %q, which is no known time zone", v1.BudgetTimeZoneAnnotationKey, name)
	r.wrong(v1.BudgetTimeZoneAnnotationKey, "a zone of the tz database, such as Europe/Zurich")
}

// zoneNamed returns the zone with the name. It returns nil if there is none.
func zoneNamed(s *engine.Snapshot, name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	return s.Zones[name]
}

// TimeZones lists the time zones that pools and pods of the snapshot name, for the code that loads them.
func TimeZones(s *engine.Snapshot) []string {
	var names []string
	for _, p := range s.NodePools {
		if name, ok := p.Annotations[v1.BudgetTimeZoneAnnotationKey]; ok {
			names = append(names, name)
		}
	}
	for _, p := range s.Pods {
		if text, ok := p.Annotations[v1.MoveWindowAnnotationKey]; ok {
			if m, err := readMoveWindow(text); err == nil && m.zone != "" {
				names = append(names, m.zone)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readBudgets reads a number, a percentage or a JSON list of budgets.
func (r *PoolRules) readBudgets(key string) *VerbBudgets {
	text, ok := r.Pool.Annotations[key]
	if !ok {
		return nil
	}
	text = strings.TrimSpace(text)
	if _, err := budgetNodes(text, 100); err == nil {
		return &VerbBudgets{Budgets: []v1.Budget{{Nodes: text}}}
	}
	v := &VerbBudgets{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v.Budgets); err != nil || decoder.More() {
		v.Budgets, v.problem = nil, fmt.Sprintf("annotation %s is %q, which cannot be read", key, text)
		r.wrong(key, `a number, a percentage, or budgets such as [{"nodes":"10%","schedule":"0 9 * * mon-fri","duration":"8h"}]`)
	}
	return v
}

func (r *PoolRules) readPayback() {
	text, ok := r.Pool.Annotations[v1.PaybackAnnotationKey]
	if !ok {
		return
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d <= 0 {
		r.NoMoves = true
		r.wrong(v1.PaybackAnnotationKey, "a duration above zero, such as 4h")
		return
	}
	r.Payback = d
}

// WindowOf returns why the pod may not be moved now, by its annotation; the zero Reason means that it may.
func WindowOf(s *engine.Snapshot, pod *corev1.Pod, poolZone *time.Location) engine.Reason {
	text, ok := pod.Annotations[v1.MoveWindowAnnotationKey]
	if !ok || !kube.IsActive(pod) {
		return engine.Reason{}
	}
	m, err := readMoveWindow(text)
	if err != nil {
		return unreadableWindow(pod, text, err.Error())
	}
	zone := poolZone
	if m.zone != "" {
		if zone = zoneNamed(s, m.zone); zone == nil {
			return unreadableWindow(pod, text, "a known time zone instead of "+m.zone)
		}
	}
	w, err := readWindow(m.schedule, m.length, cmp.Or(zone, time.UTC))
	if err != nil {
		return unreadableWindow(pod, text, err.Error())
	}
	if w.isOpen(s.Now) {
		return engine.Reason{}
	}
	opens := "never"
	if t := w.opens(s.Now); !t.IsZero() {
		opens = t.UTC().Format(time.RFC3339)
	}
	return engine.Reason{Code: engine.OutsideMoveWindow, Key: kube.PodID(pod).String(), Need: opens}
}

func unreadableWindow(pod *corev1.Pod, text, problem string) engine.Reason {
	return engine.Reason{
		Code: engine.UnreadableAnnotation, Key: v1.MoveWindowAnnotationKey, Need: problem, Have: fmt.Sprintf("%q on pod %s", text, kube.PodID(pod)),
	}
}

const usualPricePatience = 5 * time.Minute

// PricePatience returns the time in which the price that pods pay in the pool doubles. It returns 0 if pods pay any price at once. ok is false if
// the pool's annotation cannot be read; then the annotation is ignored.
func PricePatience(pool *v1.NodePool) (d time.Duration, ok bool) {
	text, said := pool.Annotations[v1.PricePatienceAnnotationKey]
	if !said {
		return usualPricePatience, true
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < 0 {
		return usualPricePatience, false
	}
	return d, true
}
