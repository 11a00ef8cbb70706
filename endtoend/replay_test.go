package endtoend_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario"
)

// churn scales workloads up and down for three minutes.
func churn(w *world) {
	w.pool(w.corner, func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(time.Second) })
	w.poolReady(w.corner)
	apps := []struct{ name, cpu string }{{"churn-small", "300m"}, {"churn-middle", "900m"}, {"churn-large", "3500m"}}
	for _, app := range apps {
		w.deploy(app.name, 10, app.cpu, "1Gi")
	}
	w.running(30, time.Minute)
	random := rand.New(rand.NewPCG(1, 2))
	again := time.NewTicker(5 * time.Second)
	defer again.Stop()
	for end := time.After(3 * time.Minute); ; {
		select {
		case <-end:
			return
		case <-again.C:
			w.scale(apps[random.IntN(len(apps))].name, random.Int32N(20))
		}
	}
}

// replayed computes the disruptions that a controller has recorded again, from the files alone.
func replayed(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		seen, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		documents, err := scenario.Documents(scenario.Source{Name: filepath.Base(name), Data: seen})
		if err != nil {
			t.Fatal(err)
		}
		reading, err := scenario.Read(scenario.Input{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		decided, err := os.ReadFile(strings.TrimSuffix(name, ".yaml") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(disruption.Plan(reading.Snapshot, reading.Options, nil).Disruptions)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(decided, again) {
			t.Errorf("%s: decided\n%s\nand, computed again from the file,\n%s", filepath.Base(name), decided, again)
		}
	}
	t.Logf("%d passes were computed again", len(files))
	if len(files) < 10 {
		t.Error("that is too few to say anything")
	}
}
