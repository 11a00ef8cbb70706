package bound

import (
	"math"
	"testing"

	"tenon.sh/engine/capacity"
)

// A pod that needs a tenth of a machine is worth the whole machine if it is the only pod, and a tenth of it at market prices. With many
// such pods, both are the same.
func TestMarketPricesDoNotDependOnHowFewPodsThereAre(t *testing.T) {
	t.Parallel()
	sizes, prices := []capacity.Vector{{1000, 4096}, {2000, 16384}}, []float64{0.10, 0.25}
	for _, pods := range []int64{1, 10, 1000} {
		total := capacity.Vector{100 * pods, 200 * pods}
		pod := capacity.Vector{100, 200}
		if got := WorthOf(pod, MarketPrices(total, sizes, prices)); math.Abs(got-0.01) > 1e-9 {
			t.Errorf("at the market's prices one of %d pods is worth %g, want 0.01", pods, got)
		}
		if got, want := WorthOf(pod, DualPrices(total, sizes, prices)), max(0.01, 0.10/float64(pods)); math.Abs(got-want) > 1e-9 {
			t.Errorf("one of %d pods is worth %g, want %g", pods, got, want)
		}
	}
}
