package deviceselector_test

import (
	"fmt"
	"strings"
	"testing"

	"tenon.sh/deviceselector"
	"tenon.sh/engine/device"
)

func TestSelectorsSeeDevicesAsKubernetesShowsThem(t *testing.T) {
	t.Parallel()
	l4 := device.Shape{Driver: "gpu.example.com", Attributes: map[string]device.Value{
		"model": {Kind: device.Text, Text: "L4"}, "index": {Kind: device.Number, Text: "-3"}, "version": {Kind: device.Version, Text: "8.9.0"},
		"healthy": {Kind: device.Truth, Text: "true"}, "other.example.com/root": {Kind: device.Text, Text: "r0"}, "driverVersion": {Kind: device.Alike, Text: "driver"}},
		Capacities: map[string]device.Capacity{"memory": {Amount: 24 << 30 * 1000}, "part": {Amount: 1500}}}
	e := deviceselector.New()
	for expression, want := range map[string]device.Answer{
		`device.driver == "gpu.example.com"`:                                           device.Yes,
		`device.attributes["gpu.example.com"].model == "L4"`:                           device.Yes,
		`device.attributes["gpu.example.com"].model == "L40S"`:                         device.No,
		`device.attributes["gpu.example.com"].index == -3`:                             device.Yes,
		`device.attributes["gpu.example.com"].healthy`:                                 device.Yes,
		`device.attributes["gpu.example.com"].version.compareTo(semver("8.10.0")) < 0`: device.Yes,
		`device.attributes["other.example.com"].root == "r0"`:                          device.Yes,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("24Gi")) == 0`:   device.Yes,
		`device.capacity["gpu.example.com"].part.compareTo(quantity("1500m")) == 0`:    device.Yes,
		`device.allowMultipleAllocations`:                                              device.No,
		`device.attributes["gpu.example.com"].nothing == "L4"`:                         device.Failed,
		`has(device.attributes["gpu.example.com"].driverVersion)`:                      device.No, // nobody knows it yet
		`device.attributes["gpu.example.com"].model`:                                   device.Failed,
		`device.nothing`: device.Failed,
		`[1, 2, 3].all(a, [1, 2, 3].all(b, device.driver.matches("(a+)+$")))`: device.No,
	} {
		for range 2 { // the second answer is remembered
			if got := e.Ask([]string{expression}, &l4)[0]; got != want {
				t.Errorf("%s: %d, want %d", expression, got, want)
			}
		}
	}
	for expression, want := range map[string]string{
		`device.attributes["gpu.example.com"].model == "L4"`: "",
		`device.nothing`:   "undefined field 'nothing'",
		`device.driver ==`: "Syntax error",
	} {
		if text := e.Problem(expression); (text == "") != (want == "") || !strings.Contains(text, want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %q, want %q", expression, text, want)
		}
	}
}

func TestAnAttributeOfAnUnknownKindFailsEverySelector(t *testing.T) {
	t.Parallel()
	shape := device.Shape{Driver: "gpu.example.com", Attributes: map[string]device.Value{"list": {}}}
	if got := deviceselector.New().Ask([]string{"true"}, &shape)[0]; got != device.Failed {
		t.Errorf("got %d, want %d, as kube-scheduler does", got, device.Failed)
	}
}

func TestAnswersAreRememberedForEachShape(t *testing.T) {
	t.Parallel()
	e := deviceselector.New()
	for i := range 200 {
		shape := device.Shape{Driver: fmt.Sprintf("d%d", i)}
		answers := e.Ask([]string{`device.driver == "d7"`, "true"}, &shape)
		if (answers[0] == device.Yes) != (i == 7) || answers[1] != device.Yes {
			t.Errorf("driver d%d: %v", i, answers)
		}
	}
}
