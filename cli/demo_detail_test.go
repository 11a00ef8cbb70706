package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/examples"
)

func TestDemoSaysWhichMachineWasChosenWhyAndItsPrice(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "tenon.log")
	line := `{"level":"INFO","message":"created nodeclaim","NodeClaim":"default-a","considered":1204,` +
		`"runner-up":"c5.2xlarge us-east-1a spot","runner-up-costs-more":"$0.0040","filled":"63% cpu"}`
	if err := os.WriteFile(log, []byte("not JSON\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prices, err := newPriceList("aws")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d := &demo{
		terminal: newTerminal(&out), prices: prices, local: &localCluster{log: log},
		journey: newJourney(5, 0, 0), began: time.Now(),
	}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-a", Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "c5.2xlarge", corev1.LabelTopologyZone: "us-east-1a", v1.CapacityTypeLabelKey: "on-demand",
	}}}
	d.journey.see(claim, false, d.began)
	d.printStage(launched)
	for _, want := range []string{
		"c5.2xlarge in us-east-1a, on-demand, $0.3400/h",
		"why: cheapest of 1204 offerings that hold the pods",
		"the pods fill 63% of its cpu",
		"next best: c5.2xlarge us-east-1a spot, $0.0040/h more",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed:\n%s\nlacks %q", out.String(), want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 {
			t.Errorf("%d columns, more than a small terminal has: %s", n, line)
		}
	}
}

func TestDemoUsesColoursOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	term := newTerminal(&out)
	term.line("%s", term.paint(red, "text"))
	if out.String() != "text\n" {
		t.Errorf("wrote %q to something that is no terminal", out.String())
	}
}

// The demo's expectations must agree with its manifests.
func TestDemoExpectsWhatItsManifestsSay(t *testing.T) {
	t.Parallel()
	content, err := examples.Inflate.ReadFile("inflate/nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := readManifests(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 || objects[0].GetKind() != "NodePool" || objects[1].GetKind() != "KWOKNodeClass" {
		t.Fatalf("read %v, want a NodePool and a KWOKNodeClass", objects)
	}
	spec := objects[0].Object["spec"].(map[string]any)
	after, err := time.ParseDuration(spec["disruption"].(map[string]any)["consolidateAfter"].(string))
	if err != nil || after != demoConsolidateAfter {
		t.Errorf("consolidateAfter is %v (%v), the demo waits for %v", after, err, demoConsolidateAfter)
	}
	if objects[0].GetName() != demoPool {
		t.Errorf("the pool is %s, the demo watches %s", objects[0].GetName(), demoPool)
	}
}
