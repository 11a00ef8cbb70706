package scenario_test

import (
	"bytes"
	"slices"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// A pool that is scaled to zero remembers its machines' devices. If the controller handles claims, it starts a machine for a pod that
// requests the devices by the name of a resource. A file of the snapshot gives the same plan, although the file has no other data about devices. If
// the controller ignores claims, the file does so too. A file without a catalog is planned as if claims were handled.
func TestDevicesThatOnlyAPoolKnowsOfAreKnownInFiles(t *testing.T) {
	t.Parallel()
	const pools = "pool general\ntype one cpu=8 mem=16Gi price=1\ndeviceclass gpu driver=gpu.example.com resource=example.com/gpu\n"
	before, err := scenario.Parse(pools + "pods web x2 cpu=1 devices=(class=gpu)\nnode n pool=general type=one zone=a published=(driver=gpu.example.com count=2)\n")
	if err != nil {
		t.Fatal(err)
	}
	learned := provisioning.Plan(before.Snapshot, before.Options, nil).LearnedDevices
	if len(learned) != 1 {
		t.Fatalf("%v", learned)
	}
	after, err := scenario.Parse(pools + "pod web cpu=1 example.com/gpu=1\n")
	if err != nil {
		t.Fatal(err)
	}
	s := after.Snapshot
	s.NodePools[0].Annotations = map[string]string{v1.LearnedDevicesAnnotationKey: learned[0].Text}
	for _, c := range []struct {
		name           string
		acts, document bool
		launches       int
	}{
		{"the controller acts on claims", true, true, 1},
		{"it does not", false, true, 0},
		{"nobody says", false, false, 1},
	} {
		s.Selectors = nil
		if c.acts {
			s.Selectors = before.Snapshot.Selectors
		}
		var file bytes.Buffer
		if err := scenario.Write(&file, s, engine.Options{}); err != nil {
			t.Fatal(err)
		}
		documents, err := scenario.Documents(scenario.Source{Name: "x.yaml", Data: file.Bytes()})
		if err != nil {
			t.Fatal(err)
		}
		in := scenario.Input{Documents: documents, Now: s.Now}
		if !c.document {
			in.Documents = slices.DeleteFunc(in.Documents, func(d scenario.Document) bool { return d.Object.GetKind() == engine.CatalogKind })
			in.InstanceTypes = s.Classes[0].InstanceTypes
		}
		reading, err := scenario.Read(in)
		if err != nil {
			t.Fatal(err)
		}
		plan := provisioning.Plan(reading.Snapshot, engine.Options{}, nil)
		if len(plan.Launches) != c.launches {
			t.Errorf("%s: %d launches, %v", c.name, len(plan.Launches), plan.Unplaced)
		}
		if c.launches == 0 && (len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.FeatureNotSupported) {
			t.Errorf("%s: %v", c.name, plan.Unplaced)
		}
	}
}
