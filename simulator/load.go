package simulator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/robfig/cron/v3"
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

func (l *load) setName(version int) string { return fmt.Sprintf("%s-%d", l.Template.Name, version) }

// replicas returns how many pods the controller of the load's newest version wants, or a number below zero if that is unknown.
func (l *load) replicas() int {
	if l.Kind == statefulKind || l.Kind == scenario.Deployment && l.staying == l.current {
		return l.want
	}
	return -1
}

// back subtracts one pod from those that are away: u has become ready, or the workload was scaled down. The pod that replaces a Deployment's pod may
// belong to a newer ReplicaSet.
func (l *load) back(u *unit) {
	if len(l.away) == 0 {
		return
	}
	uid := kube.WorkloadOf(u.pod)
	if l.away[uid] == 0 && l.Kind == scenario.Deployment {
		uid = slices.Min(slices.Collect(maps.Keys(l.away)))
	}
	if l.away[uid]--; l.away[uid] <= 0 {
		delete(l.away, uid)
	}
}
