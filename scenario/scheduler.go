package scenario

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// schedulerProfile reads kube-scheduler's way of ranking nodes.
func (w word) schedulerProfile() (engine.SchedulerProfile, error) {
	var p engine.SchedulerProfile
	r, err := w.group("scheduler")
	if err != nil {
		return p, err
	}
	for r.more() {
		if err := r.next().addToProfile(r, &p); err != nil {
			return p, err
		}
	}
	if problem := p.Problem(); problem != "" {
		return p, w.errorf("%s", problem)
	}
	return p, nil
}

func (w word) addToProfile(r *reader, p *engine.SchedulerProfile) (err error) {
	key, value := w.cut()
	switch key {
	case "name":
		p.SchedulerName = value
	case "fit":
		if p.Strategy = engine.ScoringStrategy(value); value == "LeastAllocated" {
			p.Strategy = engine.LeastAllocated
		}
	case "resources":
		return w.eachWeight(func(name string, n int64) {
			p.Resources = append(p.Resources, engine.ResourceWeight{Name: scored(name), Weight: n})
		})
	case "shape":
		for _, point := range w.pairs() {
			at, err := strconv.ParseInt(point.key, 10, 32)
			if err != nil {
				return w.errorf("%q is not a percentage: write shape=0:0,100:10", point.key)
			}
			score, err := strconv.ParseInt(point.value, 10, 32)
			if err != nil {
				return w.errorf("%q is not a score: write shape=0:0,100:10", point.value)
			}
			p.Shape = append(p.Shape, engine.ShapePoint{Utilization: at, Score: score})
		}
	case "balanced":
		for _, name := range w.list() {
			p.Balanced = append(p.Balanced, scored(name))
		}
	case "weights":
		p.Weights = map[string]int64{}
		return w.eachWeight(func(name string, n int64) { p.Weights[name] = n })
	case "hard-affinity":
		n, err := w.number()
		weight := int64(n)
		p.HardPodAffinityWeight = &weight
		return err
	case "ignore-others":
		p.IgnoreTermsOfOthers = true
	case "score-nodes":
		n, err := w.number()
		p.PercentageOfNodesToScore = int64(n)
		return err
	case "default-spread":
		spread, err := w.spreadConstraint(nil)
		p.DefaultConstraints = append(p.DefaultConstraints, spread)
		return err
	case "no-system-spread":
		p.NoSystemDefaults = true
	default:
		return r.unknown(w, "name= fit= resources= shape= balanced= weights= hard-affinity= ignore-others score-nodes= default-spread= no-system-spread")
	}
	return nil
}

func scored(name string) corev1.ResourceName {
	resource, _ := resourceName(name)
	return resource
}

// eachWeight reads a value of the form a:1,b:2. Without a number the weight is 1.
func (w word) eachWeight(add func(name string, n int64)) error {
	for _, p := range w.pairs() {
		n := int64(1)
		if p.value != "" {
			var err error
			if n, err = strconv.ParseInt(p.value, 10, 32); err != nil {
				return w.errorf("%q is not a weight", p.value)
			}
		}
		add(p.key, n)
	}
	return nil
}
