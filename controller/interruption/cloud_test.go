package interruption_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/interruption"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// The simulated cloud reclaims all its machines: each notice is acted on once, and none is left.
func TestMachinesThatTheSimulatedCloudReclaimsAreLeft(t *testing.T) {
	t.Parallel()
	_, objects := spot(20)
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	cloud, err := simulated.NewCloud(simulated.Config{
		Seed: 1, Clock: w.Clock, Catalog: catalog.KWOK(), Profile: simulated.Profile{Spot: simulated.SpotModel{Notice: 2 * time.Minute}},
	})
	w.Must(err)
	notifier := simulated.New(cloud)
	snap, err := w.Cluster.Snapshot(w)
	w.Must(err)
	class, err := w.Cluster.Class(w, snap.Classes[0].Ref)
	w.Must(err)
	for _, c := range snap.NodeClaims {
		claim := c.DeepCopy()
		claim.Spec.Requirements = []v1.Requirement{{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{v1.CapacityTypeSpot}}}
		_, err := notifier.Launch(w, claim, class)
		w.Must(err)
	}
	w.Must(cloud.Inject(simulated.Fault{What: simulated.FaultReclaim, Share: 1}))
	r := interruption.New(interruption.Config{Cluster: w.Cluster, Notifier: notifier, Recorder: w.Recorder, Metrics: w.Metrics})
	for range 20 {
		w.Must(act(w, r))
		w.Clock.Step(10 * time.Second)
	}
	for _, c := range w.Claims() {
		node := &corev1.Node{}
		w.Must(w.Client.Get(w, client.ObjectKey{Name: c.Name}, node))
		if c.DeletionTimestamp == nil || !closed(node) {
			t.Errorf("claim %s is left to its fate", c.Name)
		}
	}
	if left, err := notifier.Notices(w); err != nil || len(left) > 0 {
		t.Errorf("%d notices left, %v", len(left), err)
	}
	if events := w.Events(); events["NodeClaim SpotInterrupted"] != 20 {
		t.Errorf("events %v", events)
	}
}
