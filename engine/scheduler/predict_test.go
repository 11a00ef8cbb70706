package scheduler_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario"
)

func TestAClaimIsPredictedFromItsStatusOrAsTheSmallestItMayBecome(t *testing.T) {
	t.Parallel()
	f, err := scenario.Parse(strings.Join([]string{"pool general taint=a=b:NoSchedule", "type large cpu=8 mem=16Gi zones=a,b,c price=0.1", "type small cpu=4 mem=16Gi zones=a,b price=0.2",
		"claim launched pool=general type=large zone=c", "claim open pool=general type=large,small"}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, byName := f.Snapshot, map[string]*v1.NodeClaim{}
	for _, c := range s.NodeClaims {
		byName[c.Name] = c
	}
	node := scheduler.PredictClaim(s, byName["launched"])
	if l := node.Labels; l[corev1.LabelInstanceTypeStable] != "large" || l[corev1.LabelTopologyZone] != "c" || l[corev1.LabelHostname] != "launched" {
		t.Errorf("launched: %v", l)
	}
	if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.String() != "8" || len(node.Spec.Taints) != 1 {
		t.Errorf("launched: cpu %s, taints %v", cpu.String(), node.Spec.Taints)
	}
	open := byName["open"]
	open.Spec.Requirements = append(open.Spec.Requirements, v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{"b", "a"}})
	node = scheduler.PredictClaim(s, open)
	if l := node.Labels; l[corev1.LabelInstanceTypeStable] != "small" || l[corev1.LabelTopologyZone] != "b" {
		t.Errorf("open: %v", l)
	}
	s.Classes = nil
	if node = scheduler.PredictClaim(s, open); node == nil {
		t.Error("nothing is predicted for a claim whose class is gone")
	}
}

// A claim for a spot or an on-demand machine is predicted as the cheaper one, including the interruption loss.
func TestAClaimIsPredictedAsWhatCostsLessWithItsInterruptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		loss float64 // USD per hour
		want string
	}{{0.01, v1.CapacityTypeSpot}, {0.08, v1.CapacityTypeOnDemand}} {
		f, err := scenario.Parse("pool general\ntype small cpu=4 mem=16Gi zones=a price=0.10 spot=0.03\nclaim open pool=general type=small")
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range f.Snapshot.Classes[0].InstanceTypes[0].Offerings {
			if o.CapacityType == v1.CapacityTypeSpot {
				f.Snapshot.Classes[0].InstanceTypes[0].Offerings[i].InterruptionLoss = c.loss
			}
		}
		claim := f.Snapshot.NodeClaims[0]
		delete(claim.Labels, v1.CapacityTypeLabelKey)
		for i, r := range claim.Spec.Requirements {
			if r.Key == v1.CapacityTypeLabelKey {
				claim.Spec.Requirements[i].Values = []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot}
			}
		}
		if l := scheduler.PredictClaim(f.Snapshot, claim).Labels; l[v1.CapacityTypeLabelKey] != c.want {
			t.Errorf("spot at 0.03 and a loss of %v, on demand at 0.10: predicted %q", c.loss, l[v1.CapacityTypeLabelKey])
		}
	}
}

// The driver of Azure's disks has the zone "" on nodes of zone 0: kube-scheduler compares the zones of volumes with this value.
func TestAMachineOfAzureInNoZoneIsWhereItsDiskCanBe(t *testing.T) {
	t.Parallel()
	const key = "topology.disk.csi.azure.com/zone"
	f, err := scenario.Parse(strings.Join([]string{"pool general", "type d cpu=8 mem=16Gi zones=a,0 price=0.1", "claim regional pool=general type=d zone=0", "claim zonal pool=general type=d zone=a",
		"yaml", "apiVersion: v1", "kind: PersistentVolume", "metadata: {name: v}",
		`spec: {csi: {driver: disk.csi.azure.com, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: ` + key + `, operator: In, values: [""]}]}]}}}`, "end"}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range f.Snapshot.NodeClaims {
		labels := scheduler.PredictClaim(f.Snapshot, claim).Labels
		zone, has := labels[key]
		if want := map[string]string{"regional": "", "zonal": "a"}[claim.Name]; !has || zone != want {
			t.Errorf("%s: the disk's zone is %q (%v), not %q", claim.Name, zone, has, want)
		}
		if want := map[string]string{"regional": "0", "zonal": "a"}[claim.Name]; labels[corev1.LabelTopologyZone] != want {
			t.Errorf("%s: the zone is %q", claim.Name, labels[corev1.LabelTopologyZone])
		}
	}
}
