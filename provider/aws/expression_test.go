package aws_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws"
)

func TestExpressionsOfAClassAreComputedForEachType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) { c.NodeClassCEL = true })
	c := w.resolved("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.Kubelet = kubeletOf(`{"maxPods":"min(max_pods * 2, 100)","kubeReserved":{"memory":"max_pods * 10"},"systemReserved":{"cpu":"vcpus * 5"}}`)
	})
	types := w.catalog(c)
	for name, want := range map[string][3]string{ // pods, reserved memory and cores
		"m5.large":   {"58", "692Mi", "80m"},    // 580 rounded up to 592, plus 100 for eviction; 70 of the kubelet plus 10
		"m5.xlarge":  {"100", "1108Mi", "100m"}, // 1000 rounded up to 1008; 80 and 20
		"m5.4xlarge": {"100", "1108Mi", "190m"}, // 110 and 80
	} {
		it := typeOf(types, name)
		got := [3]string{it.Capacity.Pods().String(), it.Overhead.Memory().String(), it.Overhead.Cpu().String()}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if q := typeOf(types, "m5.large").Capacity[corev1.ResourceCPU]; q.Value() != 2 {
		t.Errorf("m5.large has %s cores", q.String())
	}
}

func TestExpressionsThatCannotBeComputedAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) { c.NodeClassCEL = true })
	for text, want := range map[string][2]string{
		`{"maxPods":"vcpus +"}`:                            {awsv1.ReasonKubeletExpressionInvalid, "spec.kubelet.maxPods"},
		`{"kubeReserved":{"memory":"unknown_name"}}`:       {awsv1.ReasonKubeletExpressionInvalid, "spec.kubelet.kubeReserved[memory]"},
		`{"maxPods":"vcpus - 5"}`:                          {awsv1.ReasonKubeletEvaluationFailed, "pods"},
		`{"systemReserved":{"cpu":"vcpus / (vcpus - 2)"}}`: {awsv1.ReasonKubeletEvaluationFailed, "systemReserved"},
	} {
		c := w.class(fmt.Sprintf("class-%d", len(text)), func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = kubeletOf(text) })
		problem := w.resolve(c)
		if got := v1.GetCondition(c, awsv1.ConditionValidationSucceeded); got.Reason != want[0] || !strings.Contains(problem, want[1]) {
			t.Errorf("%s: %s, %q; want %v", text, got.Reason, problem, want)
		}
	}
	bad := w.class("bad", func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = kubeletOf(`{"maxPods":"vcpus - 5"}`) })
	w.resolve(bad)
	if _, err := w.provider.Catalog(t.Context(), seen(bad)); err == nil || !strings.Contains(err.Error(), "spec.kubelet.maxPods") {
		t.Errorf("a catalog with negative numbers of pods: %v", err)
	}
	w.catalog(w.resolved("good", nil))
}
