package provisioning

import (
	"math"
	"testing"
)

func TestGapIsNothingWhereOnlyTheArithmeticDiffers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cost, bound, want float64 }{
		{0.3, 0.1 + 0.2, 0},
		{0.1 + 0.2, 0.3, 0},
		{1, 1 + 1e-12, 0},
		{1.01, 1, 0.01},
		{0.99, 1, -0.01},
	} {
		if got := gapOf(c.cost, c.bound); math.Abs(got-c.want) > 1e-12 || got == 0 && math.Signbit(got) || c.want == 0 && got != 0 {
			t.Errorf("%v above %v: the gap is %v, want %v", c.cost, c.bound, got, c.want)
		}
	}
}
