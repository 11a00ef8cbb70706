package report

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// decisionBuckets returns buckets for durations from milliseconds to minutes.
func decisionBuckets() []float64 {
	return slices.Concat(
		[]float64{0.005, 0.01, 0.025, 0.05},
		steps(2, 10, 0.05), steps(6, 10, 0.1), []float64{1.25, 1.5, 1.75, 2}, steps(5, 10, 0.5), steps(6, 10, 1),
		[]float64{15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600},
	)
}

// steps returns from*width, (from+1)*width, …, to*width.
func steps(from, to int, width float64) []float64 {
	var out []float64
	for i := from; i <= to; i++ {
		out = append(out, float64(i)*width)
	}
	return out
}

// lifetimeBuckets returns buckets for the ages of nodes.
func lifetimeBuckets() []float64 {
	var out []float64
	for _, d := range []time.Duration{15 * time.Minute, 30 * time.Minute, 45 * time.Minute} {
		out = append(out, d.Seconds())
	}
	for _, hours := range []float64{1, 2, 4, 6, 8, 10, 12, 16, 20} {
		out = append(out, hours*3600)
	}
	for _, days := range []float64{1, 2, 3, 5, 10, 15, 20, 25, 30} {
		out = append(out, days*24*3600)
	}
	return out
}

func doubling(from float64, count int) []float64 {
	return prometheus.ExponentialBuckets(from, 2, count)
}

// quantiles returns the quantiles of every summary.
func quantiles() map[float64]float64 {
	return map[float64]float64{0: 0.01, 0.5: 0.01, 0.9: 0.01, 0.99: 0.01, 1: 0.01}
}
