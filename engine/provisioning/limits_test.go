package provisioning_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// A machine counts against its pool's limits until its claim is being deleted, even if somebody has deleted its node.
func TestAMachineCountsUntilItsClaimIsBeingDeleted(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`
pool general limits=nodes:1
type two cpu=2 mem=4Gi price=0.05
node n1 pool=general type=two zone=a deleting
pod web cpu=1 node=n1 owner=Deployment
`)
	if err != nil {
		t.Fatal(err)
	}
	s := file.Snapshot
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != 1 {
		t.Errorf("its claim is being deleted, and %d machines are started for its pod", len(plan.Launches))
	}
	s.NodeClaims[0] = s.NodeClaims[0].DeepCopy()
	s.NodeClaims[0].DeletionTimestamp = nil
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != 0 {
		t.Errorf("one machine may be there, and beside the one that is there %+v is started", plan.Launches)
	}
}

// A machine that the cloud takes away is counted once: the replacement that a pass has found room for is not refused when it is begun.
func TestAMachineThatIsTakenAwayIsCountedOnce(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`
pool fixed replicas=2 budget=100% limits=nodes:3
type two cpu=2 mem=4Gi price=0.05
node taken pool=fixed type=two zone=a taint=karpenter.sh/disrupted:NoSchedule annotations=tenon.sh/notice:SpotInterruption
node stays pool=fixed type=two zone=a
`)
	if err != nil {
		t.Fatal(err)
	}
	checker := disruption.NewChecker(file.Snapshot)
	if r := checker.Room(engine.Launch{Name: "fixed-1", NodePool: "fixed", InstanceTypes: []string{"two"}}); !r.OK() {
		t.Errorf("of three machines two are there, and there is no room for another: %s", r.Message())
	}
}

// The machines of a pool of fixed size count until they are gone, those that are being removed too.
func TestAMachineThatIsBeingRemovedLeavesNoRoomInAPoolOfFixedSize(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`
pool fixed replicas=2 limits=nodes:4
type two cpu=2 mem=4Gi price=0.05
node n1 pool=fixed type=two zone=a
node n2 pool=fixed type=two zone=a deleting
node n3 pool=fixed type=two zone=a deleting
`)
	if err != nil {
		t.Fatal(err)
	}
	checker := disruption.NewChecker(file.Snapshot)
	launch := engine.Launch{Name: "fixed-1", NodePool: "fixed", InstanceTypes: []string{"two"}}
	if r := checker.Room(launch); !r.OK() {
		t.Errorf("three of four are there: %s", r.Message())
	}
	if r := checker.Room(launch); r.Code != engine.LimitReached {
		t.Errorf("the fourth was found right before: %q", r.Message())
	}
}
