package simulated_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/simulated"
)

func TestAFaultScriptPlays(t *testing.T) {
	faults, err := simulated.ReadFaults(strings.NewReader(`[
		{"at": "10m", "what": "outage", "for": "10m", "selector": {"zone": "test-zone-b"}},
		{"at": "30m", "what": "price", "factor": 2, "for": "10m", "selector": {"capacityType": "on-demand"}},
		{"at": "50m", "what": "throttle", "factor": 0, "for": "10m", "selector": {"call": "Terminate"}},
		{"at": "70m", "what": "never-register", "count": 1},
		{"at": "80m", "what": "kill", "selector": {"machine": "first-0"}},
		{"at": "90m", "what": "stale", "lag": "5m", "for": "10m"}
	]`), "faults.json")
	if err != nil {
		t.Fatal(err)
	}
	s := newSky(t, simulated.Config{Faults: faults})
	s.fleet(t, "first", 1, onDemandA)
	price := s.Price(onDemandA)

	s.at(15 * time.Minute)
	if r := s.fleet(t, "outage", 1, onDemandB, onDemandA); simulated.OfferingOf(r.Machines[0]) != onDemandA {
		t.Error("a machine was started in a zone that is out")
	}
	s.at(35 * time.Minute)
	if got := s.Price(onDemandA); got != 2*price {
		t.Errorf("price %v, want twice %v", got, price)
	}
	if got := s.Price(spotA); got >= price {
		t.Errorf("the spot price is %v", got)
	}
	s.at(55 * time.Minute)
	throttled := (*provider.ThrottledError)(nil)
	if err := s.Terminate("simulated://outage-0"); !errors.As(err, &throttled) {
		t.Errorf("terminate during a brown-out: %v", err)
	}
	s.at(75 * time.Minute)
	s.fleet(t, "silent", 2, onDemandA)
	registered := map[string]bool{}
	for _, b := range s.Boots() {
		registered[b.Claim] = !b.Registers.IsZero()
	}
	if registered["silent-0"] || !registered["silent-1"] {
		t.Errorf("registered: %v", registered)
	}
	if _, err := s.Describe("simulated://first-0"); err != nil {
		t.Errorf("before it is killed: %v", err)
	}
	s.at(80 * time.Minute)
	if _, err := s.Describe("simulated://first-0"); !errors.Is(err, provider.ErrGone) {
		t.Errorf("killed: %v, want ErrGone", err)
	}
	s.at(91 * time.Minute)
	s.fleet(t, "stale", 1, onDemandA)
	if _, err := s.Describe("simulated://stale-0"); !errors.Is(err, simulated.ErrUnseen) {
		t.Errorf("stale reads: %v, want ErrUnseen", err)
	}
}

func TestTheNoticesOfAReclaimAreGivenWithinItsTime(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{Spot: simulated.SpotModel{Notice: time.Minute}}, Faults: []simulated.Fault{{
		What: simulated.FaultReclaim, Share: 1, At: metav1.Duration{Duration: time.Minute}, For: metav1.Duration{Duration: 10 * time.Second},
	}}})
	s.fleet(t, "taken", 40, onDemandA)
	for _, step := range []struct {
		at          time.Duration
		least, most int
	}{{59 * time.Second, 0, 0}, {65 * time.Second, 5, 35}, {70 * time.Second, 40, 40}} {
		s.at(step.at)
		if n := len(s.Notices()); n < step.least || n > step.most {
			t.Errorf("%d notices after %v, want %d to %d", n, step.at, step.least, step.most)
		}
	}
}

func TestABadFaultScriptIsRefusedInOneLine(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{``, "it must be a JSON array of faults"},
		{`{}`, "it must be a JSON array of faults"},
		{`[{"what":"flood"}]`, `fault number 1: what: "flood" is none of short, reclaim`},
		{`[{"what":"kill"},{"what":"reclaim"}]`, "fault number 2: reclaim: share: 0 is not above 0"},
		{`[{"what":"reclaim","share":2}]`, "share: 2 is not"},
		{`[{"what":"short","at":"-1m"}]`, "cannot be negative"},
		{`[{"what":"short","at":"soon"}]`, "it must be a JSON array of faults"},
		{`[{"what":"stale"}]`, "stale: lag: missing"},
		{`[{"what":"never-register"}]`, "never-register: count: 0"},
		{`[{"what":"price","factor":-1}]`, "price: factor: -1 is negative"},
		{`[{"what":"throttle","selector":{"call":"Dance"}}]`, `selector.call: "Dance" is none of Describe`},
		{`[{"what":"short","selector":{"color":"red"}}]`, "unknown field"},
		{`[{"what":"gone","share":-1}]`, "gone: share: -1 is not from 0 to 1"},
		{`[{"what":"late-register"}]`, "late-register: lag: missing"},
		{`[{"what":"late-register","lag":"-1s"}]`, "cannot be negative"},
		{`[{"what":"devices","resource":"gpu"}]`, `devices: resource: "gpu" is no device`},
		{`[{"what":"devices","resource":"nvidia.com/gpu","count":4,"factor":2}]`, "devices: say count (so many) or factor"},
		{`[{"what":"less"}]`, `less: resource: "" is none of cpu, memory`},
		{`[{"what":"less","resource":"memroy"}]`, `"memroy" is none of cpu, memory, ephemeral-storage, pods: write the full name, such as nvidia.com/gpu`},
		{`[{"what":"less","resource":"cpu","factor":-0.5}]`, "less: factor: -0.5 is not from 0 to below 1: say what share of the resource is there"},
		{`[{"what":"less","resource":"cpu","factor":1}]`, "less: factor: 1 is not"},
		{`[{"what":"taint"}]`, `taint: taint: "" is no taint: write key=value:NoSchedule`},
		{`[{"what":"taint","taint":"a=b:Never"}]`, `"a=b:Never" is no taint`},
		{`[{"what":"taint","taint":"a b:NoSchedule"}]`, `"a b:NoSchedule" is no taint`},
		{`[{"what":"label"}]`, `label: label: "" is no label: write key=value, or key-`},
		{`[{"what":"label","label":"a"}]`, `"a" is no label`},
		{`[{"what":"label","label":"a b=c"}]`, `"a b=c" is no label`},
		{`[{"what":"attach","count":3}]`, "attach: driver: missing"},
		{`[{"what":"attach","driver":"disk.example.com"}]`, "attach: count: 0 is not above 0"},
	} {
		_, err := simulated.ReadFaults(strings.NewReader(c.script), "faults.json")
		if err == nil || !strings.HasPrefix(err.Error(), "fault script faults.json: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.script, err)
		}
	}
}

// Properties of machines are drawn when they start, among the machines that a fault selects while it lasts.
func TestMachinesComeAsFaultsSay(t *testing.T) {
	minute := metav1.Duration{Duration: time.Minute}
	cfg := simulated.Config{Faults: []simulated.Fault{
		{What: simulated.FaultLess, Resource: "cpu", Factor: 0.25, At: minute, For: minute, Share: 0.5, Selector: simulated.Selector{Zone: "test-zone-a"}},
		{What: simulated.FaultLess, Resource: "pods", At: minute, For: minute, Selector: simulated.Selector{Zone: "test-zone-b"}},
		{What: simulated.FaultLateRegister, Lag: minute, At: minute, For: minute, Selector: simulated.Selector{Zone: "test-zone-b"}},
		{What: simulated.FaultSecond, At: metav1.Duration{Duration: 5 * time.Minute}, Share: 0.5, Selector: simulated.Selector{Zone: "test-zone-a"}},
	}}
	s := newSky(t, cfg)
	s.fleet(t, "before", 1, onDemandA)
	s.at(90 * time.Second)
	s.fleet(t, "a", 100, onDemandA)
	s.fleet(t, "b", 1, onDemandB)
	s.at(2 * time.Minute)
	s.fleet(t, "after", 1, onDemandA)

	less := map[string]int{}
	for _, b := range s.Boots() {
		m, allocatable, _ := s.Inspect(b.ID)
		node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: string(b.ID)}, Status: corev1.NodeStatus{Capacity: m.Capacity, Allocatable: allocatable}}
		s.Dress(node)
		group, _, _ := strings.Cut(b.Claim, "-")
		switch {
		case node.Status.Capacity.Cpu().MilliValue() == m.Capacity.Cpu().MilliValue()/4 && node.Status.Allocatable.Cpu().MilliValue() == allocatable.Cpu().MilliValue()/4:
			less[group]++
		case node.Status.Allocatable.Pods().IsZero():
			less["no pods in "+group]++
		}
		if late := b.Registers.Sub(m.Created) == time.Minute; late != (group == "b") {
			t.Errorf("machine %s registers at %v", b.ID, b.Registers)
		}
	}
	if less["before"] > 0 || less["after"] > 0 || less["a"] < 30 || less["a"] > 70 || less["no pods in b"] != 1 {
		t.Errorf("machines with less: %v, want about half of a, and b", less)
	}
	s.at(5 * time.Minute)
	if n := len(s.NodeFaults()); n < 30 || n > 70 {
		t.Errorf("%d of 102 machines have a second node, want about half", n)
	}
	s.Settle(s.NodeFaults()[0].ID)
	if n := len(s.NodeFaults()); n < 29 || n > 69 {
		t.Errorf("%d after one is settled", n)
	}
}

func TestTheGuidesFaultScriptCanBeRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	script, _, _ := strings.Cut(rest, "```")
	if faults, err := simulated.ReadFaults(strings.NewReader(script), "simulate.md"); err != nil || len(faults) != 3 {
		t.Errorf("%d faults, %v", len(faults), err)
	}
}

func TestACloudNeedsAClockAndACatalog(t *testing.T) {
	if _, err := simulated.NewCloud(simulated.Config{}); err == nil {
		t.Error("a cloud without a clock")
	}
	s := newSky(t, simulated.Config{})
	twice := append(s.Catalog()[:1:1], s.Catalog()[0])
	for name, cfg := range map[string]simulated.Config{
		"no catalog":      {Clock: s.clock},
		"a type twice":    {Clock: s.clock, Catalog: twice},
		"an unknown kind": {Clock: s.clock, Catalog: []engine.InstanceType{{Name: "a"}}, Faults: []simulated.Fault{{What: "flood"}}},
	} {
		if _, err := simulated.NewCloud(cfg); err == nil || !strings.HasPrefix(err.Error(), "make a simulated cloud: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
