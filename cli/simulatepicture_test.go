package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/simulator"
)

// The guide shows the picture of its command. UPDATE_SCRIPTS=1 writes the picture.
func TestThePictureOfTheGuideIsWhatItsCommandDraws(t *testing.T) {
	t.Parallel()
	const shown = "../docs/guide/simulate-day.svg"
	drawn := filepath.Join(t.TempDir(), "day.svg")
	command := newSimulate()
	command.SetArgs([]string{"-f", "../examples/aws/nodepool.yaml", "--trace", "../examples/simulate/day.csv",
		"--compare", "Baseline,WhenEmptyOrUnderutilized,Balanced", "--picture", drawn})
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(shown, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(shown); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the command draws (%v): look at the difference, then UPDATE_SCRIPTS=1", shown, err)
	}
}

// A picture is well-formed with any content, shows each name unchanged, and has a line for each setting.
func TestPicturesAreWellFormed(t *testing.T) {
	t.Parallel()
	bound := 1.5
	result := func(policy string, cost float64, bound *float64) *simulator.Result {
		r := &simulator.Result{Seed: 1, Profile: `<b>&"cloud"`, Begin: metav1.NewTime(time.Date(2026, 3, 2, 22, 30, 0, 0, time.UTC)), Cost: cost}
		r.Policy = "" // as the pools say
		if policy != "" {
			r.Payback = &metav1.Duration{Duration: time.Hour}
		}
		for i := range 200 {
			r.Hours = append(r.Hours, simulator.Hour{Begin: metav1.NewTime(r.Begin.Add(time.Duration(i) * time.Hour)), CostPerHour: cost, BoundPerHour: bound})
			bound = nil // some hours have no bound
		}
		if r.Hours[0].BoundPerHour != nil {
			r.Bound = 300
		}
		return r
	}
	many := []*simulator.Result{result("", 2, &bound)}
	for range 11 {
		many = append(many, result("payback", 3, &bound))
	}
	for name, c := range map[string]struct {
		results []*simulator.Result
		says    []string
	}{
		"one":            {[]*simulator.Result{result("", 2, &bound)}, []string{"the pools as they are", `seed 1, cloud <b>&"cloud"`, "the bound: no plan costs less", "2.00", "Wed 4 Mar"}},
		"nothing costs":  {[]*simulator.Result{result("", 0, nil)}, []string{"the pools as they are", "0.00"}},
		"twelve of them": {many, []string{"the pools as they are", "payback=1h"}},
	} {
		picture := drawSimulation(c.results, 8)
		if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("%s: it has numbers that are none", name)
		}
		var words strings.Builder
		lines := 0
		decoder := xml.NewDecoder(strings.NewReader(picture))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch x := token.(type) {
			case xml.CharData:
				words.Write(x)
			case xml.StartElement:
				for _, a := range x.Attr {
					if a.Name.Local == "class" && strings.HasPrefix(a.Value, "line ") {
						lines++
					}
				}
			}
		}
		if lines != 3*len(c.results) { // in the legend and in both plots
			t.Errorf("%s: %d lines", name, lines)
		}
		if known := c.results[0].Bound > 0; strings.Contains(words.String(), "the bound") != known || strings.Contains(picture, `class="bound"`) != known {
			t.Errorf("%s: whether it shows a bound is not whether that is known", name)
		}
		for _, want := range c.says {
			if !strings.Contains(words.String(), want) {
				t.Errorf("%s: it does not say %q", name, want)
			}
		}
	}
	if first, last := lineClass(0), lineClass(8); first == last {
		t.Error("the ninth line looks like the first")
	}
}
