package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// poolRules is what a pool's annotations say. What cannot be read has the effect that does no harm, and is a problem.
type poolRules struct {
	pool *v1.NodePool
	// paused stops disruption as long as there is a choice; until is the zero time for a pause without an end.
	paused      bool
	until       time.Time
	pauseReason string
	cluster     Reason // for which the whole cluster is paused, the zero Reason for none
	// noLaunch is true for a pool that starts no more machines, retired for one whose nodes go as soon as they are empty.
	noLaunch, retired bool
	// observed is true where drift is seen and not acted on.
	observed bool
	zone     *time.Location
	// closed says why the budgets let nothing go, empty if they can be read.
	closed string
	// replacing and deleting bound the nodes that go with and without a replacement; nil is no bound.
	replacing, deleting *verbBudgets
	// payback is how soon a move must have paid for itself, 0 for the default; noMoves is true if that cannot be read.
	payback  time.Duration
	noMoves  bool
	problems []Reason
	times    map[*v1.Budget]*budgetTimes // as far as asked
}

// verbBudgets are the budgets of one way to go.
type verbBudgets struct {
	budgets []v1.Budget
	problem string
}

// rulesOf reads the pool's annotations.
func rulesOf(s *Snapshot, pool *v1.NodePool) *poolRules {
	r := &poolRules{pool: pool, zone: time.UTC, pauseReason: pool.Annotations[v1.PauseReasonAnnotationKey]}
	r.cluster = clusterPause(s, pool.Name)
	r.readPause(s.Now)
	r.readRetire()
	r.readDrift()
	r.readZone(s)
	r.replacing = r.readBudgets(v1.ReplaceBudgetsAnnotationKey)
	r.deleting = r.readBudgets(v1.DeleteBudgetsAnnotationKey)
	r.readPayback()
	if _, ok := pricePatience(pool); !ok {
		r.wrong(v1.PricePatienceAnnotationKey, "a duration such as 5m, or 0s for any price at once")
	}
	return r
}

// AnnotationProblems says which of the pool's annotations cannot be read, and what was expected of them.
func AnnotationProblems(s *Snapshot, pool *v1.NodePool) []Reason { return rulesOf(s, pool).problems }

// PoolPaused says whether and why the pool, or the whole cluster, is paused; the zero Reason means that it is not.
func PoolPaused(s *Snapshot, pool *v1.NodePool) Reason { return rulesOf(s, pool).pause() }

func (r *poolRules) wrong(key, want string) {
	r.problems = append(r.problems, Reason{
		Code: UnreadableAnnotation, NodePool: r.pool.Name, Key: key, Need: want, Have: fmt.Sprintf("%q", r.pool.Annotations[key]),
	})
}

func (r *poolRules) readPause(now time.Time) {
	text, ok := r.pool.Annotations[v1.PauseAnnotationKey]
	paused, until, err := readPause(text, now)
	r.paused, r.until = ok && paused, until
	if ok && err != nil {
		r.wrong(v1.PauseAnnotationKey, err.Error())
	}
}

// readPause reads "true" or the time at which a pause ends. What is neither pauses.
func readPause(text string, now time.Time) (paused bool, until time.Time, err error) {
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

// pause is the reason for which nothing of the pool is disrupted.
func (r *poolRules) pause() Reason {
	switch {
	case !r.cluster.OK():
		return r.cluster
	case !r.paused:
		return Reason{}
	}
	return pauseReason(r.pool.Name, "the pool", r.pauseReason, r.until)
}

// pausingNamespace is the namespace that pauses the whole cluster, by the annotations that pause a pool; nil if the snapshot
// has none.
func pausingNamespace(s *Snapshot) *corev1.Namespace {
	i := slices.IndexFunc(s.Namespaces, func(n *corev1.Namespace) bool { return n.Name == v1.PausingNamespace })
	if i < 0 {
		return nil
	}
	return s.Namespaces[i]
}

// clusterPause is the reason for which nothing in the cluster is disrupted, as the pool is told.
func clusterPause(s *Snapshot, pool string) Reason {
	n := pausingNamespace(s)
	if n == nil {
		return Reason{}
	}
	paused, until, _ := readPause(n.Annotations[v1.PauseAnnotationKey], s.Now)
	if !paused {
		return Reason{}
	}
	return pauseReason(pool, "the cluster", n.Annotations[v1.PauseReasonAnnotationKey], until)
}

func pauseReason(pool, what, why string, until time.Time) Reason {
	reason := Reason{Code: Paused, NodePool: pool, Key: what}
	if !until.IsZero() {
		reason.Need = " until " + until.UTC().Format(time.RFC3339)
	}
	if why != "" {
		reason.Have = ": " + why
	}
	return reason
}

func (r *poolRules) readRetire() {
	switch text := r.pool.Annotations[v1.RetireAnnotationKey]; text {
	case "", "false":
	case "true":
		r.noLaunch, r.retired = true, true
	default:
		r.noLaunch = true
		r.wrong(v1.RetireAnnotationKey, "true")
	}
}

func (r *poolRules) readDrift() {
	text, ok := r.pool.Annotations[v1.DriftAnnotationKey]
	r.observed = ok
	if ok && text != v1.DriftObserve {
		r.wrong(v1.DriftAnnotationKey, v1.DriftObserve)
	}
}

func (r *poolRules) readZone(s *Snapshot) {
	name, ok := r.pool.Annotations[v1.BudgetTimeZoneAnnotationKey]
	if !ok {
		return
	}
	if zone := zoneNamed(s, name); zone != nil {
		r.zone = zone
		return
	}
	r.closed = fmt.Sprintf("annotation %s is %q, which is no known time zone", v1.BudgetTimeZoneAnnotationKey, name)
	r.wrong(v1.BudgetTimeZoneAnnotationKey, "a zone of the tz database, such as Europe/Zurich")
}

// zoneNamed is the zone of that name, nil if there is none.
func zoneNamed(s *Snapshot, name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	return s.Zones[name]
}

// TimeZones lists the names of all time zones that pools and pods of the snapshot name, for whoever loads them.
func TimeZones(s *Snapshot) []string {
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
func (r *poolRules) readBudgets(key string) *verbBudgets {
	text, ok := r.pool.Annotations[key]
	if !ok {
		return nil
	}
	text = strings.TrimSpace(text)
	if _, err := budgetNodes(text, 100); err == nil {
		return &verbBudgets{budgets: []v1.Budget{{Nodes: text}}}
	}
	v := &verbBudgets{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v.budgets); err != nil || decoder.More() {
		v.budgets, v.problem = nil, fmt.Sprintf("annotation %s is %q, which cannot be read", key, text)
		r.wrong(key, `a number, a percentage, or budgets such as [{"nodes":"10%","schedule":"0 9 * * mon-fri","duration":"8h"}]`)
	}
	return v
}

func (r *poolRules) readPayback() {
	text, ok := r.pool.Annotations[v1.PaybackAnnotationKey]
	if !ok {
		return
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d <= 0 {
		r.noMoves = true
		r.wrong(v1.PaybackAnnotationKey, "a duration above zero, such as 4h")
		return
	}
	r.payback = d
}

// windowOf says when a pod may be moved, by its annotation; the zero Reason means now.
func windowOf(s *Snapshot, pod *corev1.Pod, poolZone *time.Location) Reason {
	text, ok := pod.Annotations[v1.MoveWindowAnnotationKey]
	if !ok || !isActive(pod) {
		return Reason{}
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
		return Reason{}
	}
	opens := "never"
	if t := w.opens(s.Now); !t.IsZero() {
		opens = t.UTC().Format(time.RFC3339)
	}
	return Reason{Code: OutsideMoveWindow, Key: podID(pod).String(), Need: opens}
}

func unreadableWindow(pod *corev1.Pod, text, problem string) Reason {
	return Reason{
		Code: UnreadableAnnotation, Key: v1.MoveWindowAnnotationKey, Need: problem, Have: fmt.Sprintf("%q on pod %s", text, podID(pod)),
	}
}
