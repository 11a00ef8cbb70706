package aws_test

import (
	"fmt"
	"testing"
	"time"

	"tenon.sh/provider/aws/awstest"
)

// TestMachinesAndClaimsThatLostEachOtherGo ends a machine behind the controller's back, and starts some that belong to no
// claim. A machine of another cluster is nobody's business.
func TestMachinesAndClaimsThatLostEachOtherGo(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.applyFile("examples/aws/nodepool.yaml")
	w.applyFile("examples/inflate/deployment.yaml")
	w.mustBeReady("default")
	w.scale("inflate", replicas)
	w.until(patience, func() (string, bool) {
		n := len(w.running())
		return fmt.Sprintf("%d of %d pods run", n, replicas), n == replicas
	})
	ours := w.observer.StartMachine(map[string]string{
		"kubernetes.io/cluster/" + awstest.Cluster: "owned", "eks:eks-cluster-name": awstest.Cluster,
		"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
	})
	others := w.observer.StartMachine(map[string]string{
		"kubernetes.io/cluster/other": "owned", "eks:eks-cluster-name": "other",
		"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
	})
	before := w.claims()[0]
	lost := idOf(before.Status.ProviderID)
	w.observer.Kill(lost)

	w.until(3*time.Minute, func() (string, bool) {
		for _, c := range w.claims() {
			if c.UID == before.UID {
				return fmt.Sprintf("claim %s outlives its machine %s", c.Name, lost), false
			}
		}
		return "", true
	})
	w.until(patience, func() (string, bool) {
		for _, p := range w.pods() {
			if p.Spec.NodeName == before.Status.NodeName {
				return fmt.Sprintf("pod %s is on node %s, whose machine is gone", p.Name, p.Spec.NodeName), false
			}
		}
		n := len(w.running())
		return fmt.Sprintf("%d of %d pods run", n, replicas), n == replicas
	})
	w.until(4*time.Minute, func() (string, bool) {
		_, runs := w.observer.Machines()[ours]
		return fmt.Sprintf("machine %s, which belongs to no claim, runs", ours), !runs
	})
	machines := w.observer.Machines()
	if _, runs := machines[others]; !runs {
		t.Errorf("machine %s of another cluster was stopped", others)
	}
	if len(machines) != len(w.claims())+1 {
		t.Errorf("%d machines, one of them another cluster's, for %d claims", len(machines), len(w.claims()))
	}
}
