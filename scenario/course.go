package scenario

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Course is the future of a cluster after its snapshot. Plans do not depend on it, but a simulation does.
type Course struct {
	Workloads []Workload
	// Cloud is the name of the cloud's profile, empty if none is given. Faults are the cloud's faults.
	Cloud  string
	Faults []Fault
}

// WorkloadKind is the kind of a workload's pods.
type WorkloadKind string

const (
	Deployment  WorkloadKind = "Deployment"  // equal pods, replaced a few at a time by a new version
	StatefulSet WorkloadKind = "StatefulSet" // pods with names of their own; a new one comes when the old one is gone
	CronJob     WorkloadKind = "CronJob"     // pods that come at fixed times and run to their end
)

// Workload makes pods in the course of time.
type Workload struct {
	Kind WorkloadKind
	// Template has the workload's name and namespace, and the common properties of all its pods.
	Template *corev1.Pod
	// Pods is the number of pods at all times, or in each run of a CronJob. If Day is given, it has the numbers by hour of the day (UTC),
	// with linear interpolation between the points.
	Pods int
	Day  []DayPoint
	// Weekend is the share of pods on Saturdays and Sundays. Noise is the size of random changes of the number.
	Weekend, Noise float64
	// Rollout is the time of new versions, Schedule the begin of a CronJob, as cron lines in UTC; empty for never.
	Rollout, Schedule string
	// Start is the time from a pod's binding until it is ready, Stop the time from its deletion to its end, and Runs the time that a pod of a
	// CronJob works: medians.
	Start, Stop, Runs time.Duration
}

// DayPoint is a number of pods at a time of the day.
type DayPoint struct {
	Hour float64
	Pods int
}

// Fault is a fault of the cloud, with times from the beginning. The simulated cloud defines the meaning of the words.
type Fault struct {
	What                            string
	At, For, Lag                    time.Duration
	Share, Factor                   float64
	Count, Parts                    int
	InstanceType, Family, Zone      string
	CapacityType, Machine, CloudAPI string
	Resource, Driver, Taint, Label  string
}

// workload reads deployment NAME x10 and cronjob NAME x10 with the words of a pod and of Workload.
func (b *builder) workload(kind WorkloadKind, name word, r *reader) error {
	w := Workload{Kind: kind, Weekend: 1, Start: 8 * time.Second, Stop: 3 * time.Second, Runs: 10 * time.Minute}
	rest := &reader{of: r.of}
	for r.more() {
		handled, err := w.word(r.words[r.at])
		if err != nil {
			return err
		}
		next := r.next()
		if !handled {
			rest.words = append(rest.words, next)
		}
	}
	p, err := b.readPod(name, rest)
	if err != nil {
		return err
	}
	if w.Kind == CronJob && w.Schedule == "" {
		return name.errorf(`say when it runs: schedule="0 * * * *"`)
	}
	if p.pod.Spec.NodeName != "" || p.owner != "" {
		return name.errorf("the pods of a %s have no node= and no owner=", r.of)
	}
	if w.Pods = max(p.count, 1); w.most() > mostPods {
		return name.errorf("%d pods are more than can be planned: %d", w.most(), mostPods)
	}
	w.Template = p.pod.DeepCopy()
	w.Template.Name = name.text
	if p.devices != nil {
		claimInSpec(&w.Template.Spec, name.text)
		b.claimTemplate(w.Template.Namespace, name.text, p.devices)
	}
	same := func(o Workload) bool {
		return o.Template.Name == name.text && o.Template.Namespace == w.Template.Namespace
	}
	if slices.ContainsFunc(b.course.Workloads, same) {
		return name.errorf("there is a workload of this name already")
	}
	b.course.Workloads = append(b.course.Workloads, w)
	return nil
}

// most returns the largest number of pods of the workload without noise.
func (w *Workload) most() int {
	most := w.Pods
	for _, p := range w.Day {
		most = max(most, p.Pods)
	}
	return most
}

func (w *Workload) word(text word) (handled bool, err error) {
	key, value := text.cut()
	switch key {
	case "day":
		w.Day, err = text.day()
	case "weekend":
		w.Weekend, err = text.percent()
	case "noise":
		w.Noise, err = text.percent()
	case "rollout":
		w.Rollout = value
	case "schedule":
		w.Schedule = value
	case "start":
		w.Start, err = text.wait()
	case "stop":
		w.Stop, err = text.wait()
	case "runs":
		w.Runs, err = text.wait()
	case "stateful":
		w.Kind = StatefulSet
	default:
		return false, nil
	}
	return true, err
}

// wait reads a duration that is not negative.
func (w word) wait() (time.Duration, error) {
	d, err := w.duration()
	if err == nil && d < 0 {
		return 0, w.errorf("this cannot be negative")
	}
	return d, err
}

// percent reads a value of the form 50% or 0.5.
func (w word) percent() (float64, error) {
	_, value := w.cut()
	number, isPercent := strings.CutSuffix(value, "%")
	s, err := strconv.ParseFloat(number, 64)
	if err != nil || !(s >= 0) || math.IsInf(s, 0) || s > 1000 {
		return 0, w.errorf("%q is not a share such as 50%%", value)
	}
	if isPercent {
		s /= 100
	}
	return s, nil
}

// day reads a value of the form 0:20,8:100,18.5:60.
func (w word) day() ([]DayPoint, error) {
	var out []DayPoint
	for _, p := range w.pairs() {
		hour, err := strconv.ParseFloat(p.key, 64)
		pods, err2 := strconv.Atoi(p.value)
		if err != nil || err2 != nil || !(hour >= 0 && hour < 24) || pods < 0 {
			return nil, w.errorf("write hours of the day with numbers of pods: day=0:20,8:100,18.5:60")
		}
		if len(out) > 0 && out[len(out)-1].Hour >= hour {
			return nil, w.errorf("the hours must rise")
		}
		out = append(out, DayPoint{hour, pods})
	}
	if len(out) == 0 {
		return nil, w.errorf("write hours of the day with numbers of pods: day=0:20,8:100")
	}
	return out, nil
}

// cloud reads cloud PROFILE.
func (b *builder) cloud(name word, r *reader) error {
	if r.more() {
		return r.unknown(r.next(), "no words: only the name of a profile")
	}
	b.course.Cloud = name.text
	return nil
}

// fault reads fault WHAT at=30m for=2h and the selection of affected machines.
func (b *builder) fault(name word, r *reader) error {
	f := Fault{What: name.text}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		var err error
		switch key {
		case "at":
			f.At, err = w.wait()
		case "for":
			f.For, err = w.wait()
		case "lag":
			f.Lag, err = w.wait()
		case "share":
			f.Share, err = w.percent()
		case "factor":
			f.Factor, err = w.share()
		case "count":
			f.Count, err = w.number()
		case "parts":
			f.Parts, err = w.number()
		case "type":
			f.InstanceType = value
		case "family":
			f.Family = value
		case "zone":
			f.Zone = value
		case "capacity":
			f.CapacityType = value
		case "machine":
			f.Machine = value
		case "call":
			f.CloudAPI = value
		case "resource":
			name, _ := resourceName(value)
			f.Resource = string(name)
		case "driver":
			f.Driver = value
		case "taint":
			f.Taint = value
		case "label":
			f.Label = value
		default:
			return r.unknown(w, "at= for= lag= share= factor= count= parts= type= family= zone= capacity= machine= call= resource= driver= taint= label=")
		}
		if err != nil {
			return err
		}
	}
	b.course.Faults = append(b.course.Faults, f)
	return nil
}
