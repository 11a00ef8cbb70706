package oracle

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// mostOffers is the largest number of new machines to ask about for a refused pod.
const mostOffers = 6

// An offer is a machine that could be bought for a pod that the plan does not place. kube-scheduler has accepted it in all worlds so far.
type offer struct {
	pod    *corev1.Pod
	launch *engine.Launch
	reason engine.Reason
}

// unbought asks again about the offers that kube-scheduler has accepted so far, because the engine knows neither which machines the cloud will
// start nor when pods end.
func (r *replay) unbought() error {
	var good []offer
	for _, o := range r.offers {
		ok, err := r.try(o)
		if err != nil {
			return err
		}
		if ok {
			good = append(good, o)
		}
	}
	if len(r.offers) > 0 { // the offered node must not count as a topology domain any more
		if err := r.judge.Scheduler.AddNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: offered}}, nil); err != nil {
			return err
		}
	}
	r.offers = good
	return nil
}

// draw chooses random offers for each pod that the plan does not place. It skips pools with limits or minValues, because these may be the reason
// for the refusal, and kube-scheduler does not know them.
func (r *replay) draw() (drawn []offer) {
	launches := r.launches()
	if len(launches) == 0 {
		return nil
	}
	dice := rand.New(rand.NewPCG(r.judge.Seed, 3))
	for _, u := range r.plan.Unplaced {
		pod := r.pods[u.Pod]
		if pod == nil || pod.Spec.NodeName != "" && !r.gone[pod] || len(u.Reasons) > 0 && u.Reasons[0].Code == engine.FeatureNotSupported {
			continue
		}
		o := offer{pod: next(pod)}
		if len(u.Reasons) > 0 {
			o.reason = u.Reasons[0]
		}
		for range mostOffers {
			o.launch = launches[dice.IntN(len(launches))]
			drawn = append(drawn, o)
		}
	}
	return drawn
}

// launches lists launches with one offering each, from each pool without limits and minValues. It skips reservations, which may be used up.
func (r *replay) launches() []*engine.Launch {
	var out []*engine.Launch
	for _, p := range r.snapshot.NodePools {
		if len(p.Spec.Limits) > 0 || slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(q v1.Requirement) bool { return q.MinValues != nil }) {
			continue
		}
		for id := range r.onSale(p) {
			if id.Reservation != "" {
				continue
			}
			out = append(out, &engine.Launch{Name: offered, NodePool: p.Name, Offerings: []engine.LaunchOffering{{OfferingID: id}}})
		}
	}
	return out
}

// offered is the name of the node that represents the offered machines, one after another.
const offered = "offered"

// try reports whether kube-scheduler accepts the offered machine for the pod, beside the DaemonSets' pods.
func (r *replay) try(o offer) (bool, error) {
	scheduler := r.judge.Scheduler
	node, csi := r.judge.predict(r.snapshot, o.launch, o.launch.Offerings[0].OfferingID)
	if node == nil {
		return false, nil
	}
	look := lookOf(offered, node, csi)
	if err := scheduler.AddNode(look.node, look.csi); err != nil {
		return false, err
	}
	for _, backwards := range []bool{false, true} {
		if ok, err := r.tryBeside(o, backwards); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// tryBeside is try with the DaemonSets' pods in one of two orders.
func (r *replay) tryBeside(o offer, backwards bool) (bool, error) {
	housed, err := r.houseOn(offered, backwards)
	if err != nil {
		return false, err
	}
	verdicts, err := r.ask(o.pod, []string{offered})
	if err != nil {
		return false, err
	}
	cause := ""
	if verdicts[0].OK {
		if cause, err = r.cause(o.pod, offered, o.reason); err != nil {
			return false, err
		}
	}
	if cause != "" {
		r.report.excused(cause, 1)
	}
	return verdicts[0].OK && cause == "", r.evacuate(housed)
}

// declined records the remaining offers as disagreements, one for each pod.
func (r *replay) declined() {
	for i, o := range r.offers {
		if i > 0 && r.offers[i-1].pod == o.pod {
			continue
		}
		id := o.launch.Offerings[0].OfferingID
		r.report.Disagreements = append(r.report.Disagreements, Disagreement{
			Seed: r.judge.Seed, Pod: engine.PodID{Namespace: o.pod.Namespace, Name: o.pod.Name, UID: o.pod.UID},
			Node: o.launch.NodePool + "'s " + id.String(), Reason: o.reason,
		})
	}
}
