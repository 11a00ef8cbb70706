package workload

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// SmallCluster draws a small cluster and returns it as a scenario: one to eight Deployments with one to six replicas by day and fewer by
// night, in one to three pools, on demand only or with spot machines too.
func SmallCluster(seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 0x5ca11))
	pick := func(list ...string) string { return list[dice.IntN(len(list))] }
	var text strings.Builder
	fmt.Fprintln(&text, "now 2026-03-02T00:00:00Z\ncloud aws-typical")
	for _, f := range []struct {
		name           string
		memory, perCPU float64
	}{{"c", 2, 0.0425}, {"m", 4, 0.048}, {"r", 8, 0.063}} {
		for _, cpu := range []float64{2, 4, 8, 16} {
			fmt.Fprintf(&text, "type %s%g cpu=%g mem=%gGi zones=a,b price=%g spot=%g\n", f.name, cpu, cpu, f.memory*cpu, f.perCPU*cpu, 0.4*f.perCPU*cpu)
		}
	}
	pools := 1 + dice.IntN(3)
	for i := range pools {
		labels := ""
		if i > 0 {
			labels = fmt.Sprintf(" labels=team:%d", i)
		}
		fmt.Fprintf(&text, "pool p%d consolidate-after=%s budget=%s%s capacity in (%s)\n",
			i, pick("0s", "1m", "5m"), pick("1", "10%", "50%"), labels, pick("on-demand", "on-demand", "spot,on-demand"))
	}
	for i := range 1 + dice.IntN(8) {
		most := 1 + dice.IntN(6)
		least := dice.IntN(most + 1)
		from, to := 5+dice.IntN(5), 16+dice.IntN(6)
		sel := ""
		if pool := dice.IntN(pools); pool > 0 {
			sel = fmt.Sprintf(" select=team:%d", pool)
		}
		fmt.Fprintf(&text, "deployment d%d x%d cpu=%s mem=%s%s day=%d:%d,%d:%d,%d:%d,%d:%d weekend=100%% start=%ds\n",
			i, most, pick("100m", "250m", "500m", "1", "2", "4"), pick("256Mi", "1Gi", "2Gi", "4Gi", "8Gi"), sel,
			from, least, from+1, most, to, most, to+1, least, 2+dice.IntN(40))
	}
	return text.String()
}
