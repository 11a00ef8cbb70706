package simulator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

const (
	jobKind      = scenario.CronJob
	statefulKind = scenario.StatefulSet
	// scalePeriod is how often the number of a workload's pods is checked; scaleTolerance is the relative error from which the number
	// is changed. Both are as with a HorizontalPodAutoscaler.
	scalePeriod    = 5 * time.Minute
	scaleTolerance = 0.1
)

// load is a workload at work.
type load struct {
	scenario.Workload
	key    string // namespace/name
	units  shelf[*unit]
	want   int       // pods of a Deployment or StatefulSet
	made   int       // pods so far
	runs   int       // the number of runs of a CronJob
	tended time.Time // the time of the next or last look by its controller
	// newest is the newest version of the pods.
	newest int
	// staying is the number of pods that are not being deleted; current is the number of these pods that are of the newest version.
	staying, current  int
	away              map[types.UID]int // by controller, the number of pods that were evicted by choice and have no ready successor yet
	again             map[*unit]bool    // pods of a CronJob that have a successor
	rollout, schedule cron.Schedule
	// For pods of a trace: jobs if Jobs own them, their labels, the missing pods to create anew, and forget, called once no pod is left.
	jobs    bool
	labels  map[string]string
	missing []*stay
	forget  func()
}

func newLoad(x scenario.Workload) (*load, error) {
	l := &load{Workload: x, key: x.Template.Namespace + "/" + x.Template.Name, units: newShelf[*unit](), again: map[*unit]bool{}, newest: 1}
	var err error
	if l.rollout, err = readCron(l.key, "rollout", x.Rollout); err != nil {
		return nil, err
	}
	l.schedule, err = readCron(l.key, "schedule", x.Schedule)
	return l, err
}

func readCron(of, word, text string) (cron.Schedule, error) {
	if text == "" {
		return nil, nil
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + text)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %s %q is no cron line such as 0 10 * * 1-5: %w", of, word, text, err)
	}
	return schedule, nil
}

// note adds a pod to the counts of staying pods if by is 1, and subtracts it if by is -1, because the pod is being deleted.
func (l *load) note(u *unit, by int) {
	l.staying += by
	if u.version == l.newest {
		l.current += by
	}
}

// begin starts a workload.
func (x *workloads) begin(l *load) {
	x.list = append(x.list, l)
	x.byKey[l.key] = l
	if l.Kind == jobKind {
		x.repeat(l.schedule, func() { x.runJob(l) })
		return
	}
	l.want = l.wanted(x.cfg.Seed, x.agenda.now)
	x.pending.loads.add(l)
	x.keepScaling(l)
	if l.rollout != nil {
		x.repeat(l.rollout, func() {
			l.newest++
			l.current = 0
			x.pending.loads.add(l)
		})
	}
}

// repeat does something at all times of a schedule.
func (x *workloads) repeat(s cron.Schedule, do func()) {
	if next := s.Next(x.agenda.now); !next.IsZero() {
		x.agenda.at(next, func() {
			do()
			x.repeat(s, do)
		})
	}
}

// keepScaling schedules the next scaling of the workload.
func (x *workloads) keepScaling(l *load) {
	if len(l.Day) == 0 && l.Noise == 0 && l.Weekend == 1 {
		return
	}
	at := x.agenda.now.Truncate(scalePeriod)
	for range 12 * 24 * 8 {
		at = at.Add(scalePeriod)
		if want := l.wanted(x.cfg.Seed, at); isAnother(l.want, want) {
			x.agenda.at(at, func() {
				l.want = want
				x.pending.loads.add(l)
				x.keepScaling(l)
			})
			return
		}
	}
	x.agenda.at(at, func() { x.keepScaling(l) })
}

func isAnother(have, want int) bool {
	return math.Abs(float64(want-have)) > float64(scaleTolerance*float64(have))
}

// wanted returns the number of pods that the workload should have at a time.
func (l *load) wanted(seed uint64, at time.Time) int {
	n := float64(l.Pods)
	if len(l.Day) > 0 {
		n = l.byHour(float64(at.Sub(at.Truncate(24*time.Hour))) / float64(time.Hour))
	}
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		n *= l.Weekend
	}
	if l.Noise > 0 {
		hour := at.Truncate(time.Hour)
		share := float64(at.Sub(hour)) / float64(time.Hour)
		before, after := l.wobble(seed, hour), l.wobble(seed, hour.Add(time.Hour))
		n *= 1 + float64(l.Noise*(before+float64(share*(after-before))))
	}
	least := 0.0
	if l.Pods > 0 && n > 0 {
		least = 1
	}
	return int(max(math.Round(n), least))
}

func (l *load) wobble(seed uint64, hour time.Time) float64 {
	return newDice(seed, "noise", l.key+" "+strconv.FormatInt(hour.Unix(), 10)).normal()
}

// byHour interpolates between the points of the day, over midnight too.
func (l *load) byHour(hour float64) float64 {
	i := 0
	for i < len(l.Day) && l.Day[i].Hour <= hour {
		i++
	}
	from, to := l.Day[(i+len(l.Day)-1)%len(l.Day)], l.Day[i%len(l.Day)]
	span, gone := to.Hour-from.Hour, hour-from.Hour
	if span <= 0 {
		span += 24
	}
	if gone < 0 {
		gone += 24
	}
	return float64(from.Pods) + float64(float64(to.Pods-from.Pods)*gone/span)
}

// makePod makes a pod of the newest version. A Job's pod may replace an earlier one of the same Job.
func (x *workloads) makePod(l *load, index int, earlier *unit) *unit {
	l.made++
	now := x.agenda.now
	name := fmt.Sprintf("%s-%d-%d", l.Template.Name, l.newest, l.made)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: l.setName(l.newest), UID: types.UID(l.key + "/" + l.setName(l.newest)), Controller: new(true)}
	switch l.Kind {
	case statefulKind:
		name = fmt.Sprintf("%s-%d", l.Template.Name, index)
		owner.Kind, owner.Name, owner.UID = "StatefulSet", l.Template.Name, types.UID(l.key)
	case jobKind:
		name = fmt.Sprintf("%s-%d-%d", l.Template.Name, l.runs, index)
		owner.APIVersion, owner.Kind, owner.Name = "batch/v1", "Job", fmt.Sprintf("%s-%d", l.Template.Name, now.Unix()/60) // as the CronJob's controller calls it
		owner.UID = types.UID(l.key + "/" + owner.Name)
		if earlier != nil {
			name, owner = fmt.Sprintf("%s-%d", earlier.pod.Name, l.made), earlier.pod.OwnerReferences[0]
		}
	}
	pod := &corev1.Pod{Spec: l.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name, pod.Annotations = l.Template.Namespace, name, l.Template.Annotations
	serial := x.cluster.nextID()
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, name, serial))
	pod.ResourceVersion = strconv.Itoa(serial)
	pod.CreationTimestamp = metav1.NewTime(now)
	pod.Labels = x.labelsOf(l, l.newest)
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	x.cluster.devices.claim(pod)
	u := &unit{pod: pod, load: l, index: index, version: l.newest}
	l.units.put(u.key(), u)
	l.note(u, 1)
	x.pods.add(u)
	return u
}

func (l *load) setName(version int) string { return fmt.Sprintf("%s-%d", l.Template.Name, version) }

// labelsOf returns the labels of the pods of a version; all of them share one map.
func (x *workloads) labelsOf(l *load, version int) map[string]string {
	key := fmt.Sprintf("%s %d", l.key, version)
	if known, ok := x.labels[key]; ok {
		return known
	}
	out := maps.Clone(l.Template.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if l.Kind == scenario.Deployment {
		out[appsv1.DefaultDeploymentUniqueLabelKey] = strconv.Itoa(version)
	}
	x.labels[key] = out
	x.declare(l, version, out)
	return out
}

// declare adds the object that owns the pods of a version, because kube-scheduler reads from it which pods to spread.
func (x *workloads) declare(l *load, version int, labels map[string]string) {
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: l.Template.Namespace, Name: l.setName(version), UID: types.UID(l.key + "/" + l.setName(version)), ResourceVersion: "1"}
	meta.CreationTimestamp = metav1.NewTime(x.agenda.now)
	switch l.Kind {
	case scenario.Deployment:
		meta.Labels = labels
		sets := slices.DeleteFunc(slices.Clone(x.cluster.base.ReplicaSets), func(r *appsv1.ReplicaSet) bool { // one old version may still have pods
			return strings.HasPrefix(string(r.UID), l.key+"/") && r.Name != l.setName(version-1)
		})
		x.cluster.base.ReplicaSets = append(sets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	case statefulKind:
		meta.Name, meta.UID = l.Template.Name, types.UID(l.key)
		x.cluster.base.StatefulSets = append(slices.Clone(x.cluster.base.StatefulSets), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
	}
}

// adopt makes workloads of the pods with owners. Each workload keeps its present number of pods.
func (x *workloads) adopt(pods []*corev1.Pod) map[*corev1.Pod]*load {
	out := map[*corev1.Pod]*load{}
	for _, pod := range pods {
		if len(pod.OwnerReferences) == 0 || kube.IsTerminal(pod) || kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) {
			continue
		}
		owner := pod.OwnerReferences[0]
		key := pod.Namespace + "/" + owner.Kind + "/" + owner.Name
		l := x.byKey[key]
		if l == nil {
			template := pod.DeepCopy()
			template.Name, template.Spec.NodeName = owner.Name, ""
			l, _ = newLoad(scenario.Workload{Kind: scenario.Deployment, Template: template, Weekend: 1, Start: 8 * time.Second, Stop: 3 * time.Second}) // without a schedule nothing can be wrong
			l.key = key
			x.byKey[key] = l
			x.list = append(x.list, l)
		}
		l.want++
		out[pod] = l
	}
	return out
}
