package scenario_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

func TestHowKubeSchedulerRanksNodesIsReadFromAScenarioAndKeptInASnapshot(t *testing.T) {
	t.Parallel()
	file, err := scenario.Parse(`pool general
type small cpu=2 mem=4Gi price=0.05
pod web cpu=1 scheduler=pack

provision no-nominations scheduler=(name=pack fit=RequestedToCapacityRatio resources=cpu:3,mem,nvidia.com/gpu:5 shape=0:0,100:10 balanced=cpu,mem weights=NodeAffinity:0,InterPodAffinity:9 hard-affinity=7 ignore-others score-nodes=40 default-spread=zone no-system-spread) scheduler=(fit=MostAllocated)
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []engine.SchedulerProfile{{
		SchedulerName: "pack", Strategy: engine.RequestedToCapacityRatio, Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}, {Name: "nvidia.com/gpu", Weight: 5}},
		Shape: []engine.ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}, Balanced: []corev1.ResourceName{"cpu", "memory"},
		Weights: map[string]int64{"NodeAffinity": 0, "InterPodAffinity": 9}, HardPodAffinityWeight: ptr.To[int64](7), IgnoreTermsOfOthers: true, PercentageOfNodesToScore: 40,
		DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}}, NoSystemDefaults: true,
	}, {Strategy: engine.MostAllocated}}
	if !reflect.DeepEqual(file.Options.Profiles, want) || !file.Options.NoNominations || file.Snapshot.Pods[0].Spec.SchedulerName != "pack" {
		t.Fatalf("got  %+v\nwant %+v", file.Options, want)
	}
	var text bytes.Buffer
	if err := scenario.Write(&text, file.Snapshot, file.Options); err != nil {
		t.Fatal(err)
	}
	back, err := scenario.Read(scenario.Input{Documents: documentsOf(t, text.String())})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Options, file.Options) || back.Snapshot.Pods[0].Spec.SchedulerName != "pack" {
		t.Errorf("came back as %+v", back.Options)
	}
}

func TestWordsAboutKubeSchedulerThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for word, says := range map[string]string{
		"scheduler=(fit=Best)":                               `"Best"`,
		"scheduler=(colour=red)":                             "fit= resources= shape=",
		"scheduler=(fit=RequestedToCapacityRatio)":           "shape",
		"scheduler=(fit=RequestedToCapacityRatio shape=a:1)": "percentage",
		"scheduler=(fit=RequestedToCapacityRatio shape=0:x)": "score",
		"scheduler=(resources=cpu:x)":                        "weight",
		"scheduler=(resources=cpu:0)":                        "1 to 100",
		"scheduler=(weights=Magic:1)":                        "Magic",
		"scheduler=(score-nodes=101)":                        "0 to 100",
		"scheduler=(hard-affinity=101)":                      "0 to 100",
	} {
		if _, err := scenario.Parse("provision " + word + "\n"); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func documentsOf(t *testing.T, text string) []scenario.Document {
	t.Helper()
	out, err := scenario.Documents(scenario.Source{Name: "snapshot.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
