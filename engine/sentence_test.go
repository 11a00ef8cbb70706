package engine_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
)

func TestAmountsReadWell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resource, amount, want string }{
		{"cpu", "1500m", "1.5"}, {"memory", "1536Mi", "1.5Gi"}, {"memory", "0", "0"}, {"memory", "17179869184", "16Gi"},
		{"hugepages-2Mi", "4Mi", "4Mi"}, {"pods", "110", "110"}, {"nvidia.com/gpu", "8", "8"},
	} {
		if got := engine.AmountWords(corev1.ResourceName(c.resource), resource.MustParse(c.amount)); got != c.want {
			t.Errorf("%s %s reads %s, want %s", c.amount, c.resource, got, c.want)
		}
	}
	for usd, want := range map[float64]string{0.0335: "$0.0335", 0: "$0.0000", 0.000012: "$0.000012", -1.5: "-$1.5000", 12: "$12.0000"} {
		if got := engine.Dollars(usd); got != want {
			t.Errorf("%v reads %s, want %s", usd, got, want)
		}
	}
	price := engine.ResourcePrice{Resource: "cpu", Unit: "core", PerHour: 0.0335}
	if got, want := price.Sentence(), "a core is worth $0.0335/h here"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
