package aws_test

import (
	"strings"
	"testing"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws"
)

// driversOf returns the expected drivers on machines of the type, with the number of their devices.
func driversOf(t *engine.InstanceType) map[string]int {
	out := map[string]int{}
	for _, p := range t.Claimable {
		out[p.Driver] += len(p.Devices)
	}
	return out
}

func TestTheGatesForDevicesSayWhatClaimsCanHave(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gpu, efa   bool
		class      func(*awsv1.EC2NodeClass)
		gpus, efas int // of g5.48xlarge
	}{
		"neither": {},
		"GPUs":    {gpu: true, gpus: 8},
		"EFA":     {efa: true, efas: 1},
		"both":    {gpu: true, efa: true, gpus: 8, efas: 1},
		"a class that lists its interfaces": {gpu: true, efa: true, gpus: 8, class: func(c *awsv1.EC2NodeClass) {
			c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}}
		}},
	} {
		w := newWorld(t, func(c *aws.Config) { untried(c); c.DRANVIDIAGPU, c.DRAEFA = test.gpu, test.efa })
		types := w.catalog(w.resolved("default", test.class))
		got := driversOf(typeOf(types, "g5.48xlarge"))
		if got["gpu.nvidia.com"] != test.gpus || got["dra.net"] != test.efas || len(driversOf(typeOf(types, "m5.large"))) > 0 {
			t.Errorf("%s: %v, want %d GPUs and %d EFA interfaces", name, got, test.gpus, test.efas)
		}
	}
}

func TestAClassSaysHowClaimsShareGPUs(t *testing.T) {
	t.Parallel()
	const annotation = "karpenter.k8s.aws/nvidia-consumable-capacity"
	w := newWorld(t, func(c *aws.Config) { untried(c); c.DRANVIDIAGPU = true })
	types := w.catalog(w.resolved("shared", func(c *awsv1.EC2NodeClass) { c.Annotations = map[string]string{annotation: "4"} }))
	if shape := typeOf(types, "g5.xlarge").Claimable[0].Devices[0].Shape; !shape.Shared || shape.Capacities["shares"].Amount != 4000 {
		t.Errorf("a GPU in 4 shares: %+v", shape)
	}
	wrong := w.class("wrong", func(c *awsv1.EC2NodeClass) { c.Annotations = map[string]string{annotation: "half"} })
	problem := w.resolve(wrong)
	if got := v1.GetCondition(wrong, awsv1.ConditionValidationSucceeded); got == nil || got.Reason != awsv1.ReasonInvalidSharing || !strings.Contains(problem, `"half"`) {
		t.Errorf("%+v, %q", got, problem)
	}
}
