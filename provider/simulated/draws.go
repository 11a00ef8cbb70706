package simulated

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"time"
)

// draws is a stream of random numbers that depends only on a seed, a purpose and an object: one more draw for an object never changes the
// draws for another object.
type draws struct{ x uint64 }

func newDraws(seed uint64, purpose string, object ...string) *draws {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(purpose))
	for _, o := range object {
		h.Write([]byte{0})
		h.Write([]byte(o))
	}
	return &draws{h.Sum64()}
}

func (c *Cloud) draws(purpose string, object ...string) *draws {
	return newDraws(c.cfg.Seed, purpose, object...)
}

// uniform returns a number in [0, 1). The generator is splitmix64.
func (d *draws) uniform() float64 {
	d.x += 0x9e3779b97f4a7c15
	z := (d.x ^ d.x>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// below returns one of 0 … n-1.
func (d *draws) below(n int) int { return int(d.uniform() * float64(n)) }

// normal returns a number from the standard normal distribution.
func (d *draws) normal() float64 {
	radius := math.Sqrt(-2 * math.Log(1-d.uniform()))
	return radius * math.Cos(2*math.Pi*d.uniform())
}

// exponential returns a waiting time with the given mean.
func (d *draws) exponential(mean time.Duration) time.Duration {
	return clamp(-math.Log(1-d.uniform()) * float64(mean))
}

// stage returns the duration of one log-normal stage.
func (d *draws) stage(s Stage) time.Duration {
	if s.Median == 0 {
		return 0
	}
	return clamp(float64(s.Median) * math.Exp(s.Sigma*d.normal()))
}

// poisson returns a small count with the given mean.
func (d *draws) poisson(mean float64) int {
	limit, p := math.Exp(-mean), 1.0
	for n := 0; ; n++ {
		if p *= 1 - d.uniform(); p <= limit {
			return n
		}
	}
}

// clamp limits a time to a hundred years, so that other durations can be added to it.
func clamp(nanoseconds float64) time.Duration {
	return time.Duration(min(nanoseconds, float64(100*365*24*time.Hour)))
}
