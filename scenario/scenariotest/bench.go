package scenariotest

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"tenon.sh/engine"
)

// Hasty returns options for planning the initial clusters of passes, whose cost does not matter.
func Hasty(largest int) engine.Options { return engine.Options{Effort: -1, LargestCPU: largest} }

// The size of the large cluster in all benchmarks.
const (
	ManyNodes   = 5_000
	ManyRunning = 100_000
)

// Exponent returns the slope of the least-squares line through the logarithms of the times. Each time is for twice as many pods as the one
// before.
func Exponent(seconds []float64) float64 {
	var x, y, xx, xy float64
	for i, s := range seconds {
		u, v := float64(i), math.Log2(s)
		x, y, xx, xy = x+u, y+v, xx+u*u, xy+u*v
	}
	n := float64(len(seconds))
	return (n*xy - x*y) / (n*xx - x*x)
}

func HeapAfterGC() int64 {
	runtime.GC()
	return HeapNow()
}

func HeapNow() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// WatchedPeak returns the largest heap size while work runs. It measures once per millisecond.
func WatchedPeak(work func()) int64 {
	stop, largest := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		peak := HeapNow()
		for {
			select {
			case <-tick.C:
				peak = max(peak, HeapNow())
			case <-stop:
				largest <- peak
				return
			}
		}
	}()
	work()
	close(stop)
	return <-largest
}
