package explain_test

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/scenario/scenariotest"
)

// The explanation of a pod names the claims of its successor, if they differ from its own.
func TestAPodSaysWhatItsSuccessorClaims(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)",
		"deviceclass gpu driver=gpu.example.com",
		"node n pool=general type=one zone=a published=(driver=gpu.example.com)",
		"pod r node=n cpu=1 devices=(class=gpu)")
	templates := s.ResourceClaimTemplates
	for name, c := range map[string]struct {
		change func(*resourcev1.ResourceClaimTemplate)
		want   string
	}{
		"the same": {func(*resourcev1.ResourceClaimTemplate) {}, ""},
		"more, of what is large": {func(t *resourcev1.ResourceClaimTemplate) {
			ask := t.Spec.Spec.Devices.Requests[0].Exactly
			ask.Count, ask.Selectors = 2, []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "large"}}}
		}, "the resource claim devices of a pod in its place is to be made from ResourceClaimTemplate r, which asks for 2 devices of DeviceClass gpu with large; its own asks for 1 device of DeviceClass gpu"},
		"all, or one of another class": {func(t *resourcev1.ResourceClaimTemplate) {
			t.Spec.Spec.Devices.Requests[0] = resourcev1.DeviceRequest{Name: "devices", FirstAvailable: []resourcev1.DeviceSubRequest{
				{Name: "a", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeAll}, {Name: "b", DeviceClassName: "nic", Count: 1}}}
		}, "ResourceClaimTemplate r, which asks for all devices of DeviceClass gpu or 1 device of DeviceClass nic; its own"},
		"none": {nil, "ResourceClaimTemplate r, which does not exist; its own asks for 1 device of DeviceClass gpu"},
	} {
		if s.ResourceClaimTemplates = nil; c.change != nil {
			changed := templates[0].DeepCopy()
			c.change(changed)
			s.ResourceClaimTemplates = []*resourcev1.ResourceClaimTemplate{changed}
		}
		notes := explain.ExplainPod(s, engine.Options{}, &engine.Plan{}, s.Pods[0]).Notes
		if (c.want == "") != (len(notes) == 0) || !strings.Contains(strings.Join(notes, "\n"), c.want) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.want)
		}
	}
	waits := s.Pods[0].DeepCopy()
	waits.Spec.NodeName = ""
	if notes := explain.ExplainPod(s, engine.Options{}, &engine.Plan{}, waits).Notes; len(notes) > 0 {
		t.Errorf("of a pod that waits with its claim: %q", notes)
	}
	if waits.Status.ResourceClaimStatuses, s.ResourceClaimTemplates = nil, templates; !strings.Contains(strings.Join(explain.ExplainPod(s, engine.Options{}, &engine.Plan{}, waits).Notes, "\n"),
		"its resource claim devices is to be made from ResourceClaimTemplate r, which asks for 1 device of DeviceClass gpu") {
		t.Error("a pod without its claim does not say what it will claim")
	}
}
