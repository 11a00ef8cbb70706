package simulator

import (
	"math"
	"time"
)

// dice is a stream of random numbers for a seed, a purpose and an object. One more draw for one object does not change the draws for another.
type dice struct{ x uint64 }

func newDice(seed uint64, purpose, thing string) *dice {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	mix := func(b byte) { h = (h ^ uint64(b)) * 0x100000001b3 }
	for i := range 8 {
		mix(byte(seed >> (8 * i)))
	}
	for i := range len(purpose) {
		mix(purpose[i])
	}
	mix(0)
	for i := range len(thing) {
		mix(thing[i])
	}
	return &dice{h}
}

// uniform returns a number in [0, 1). The generator is splitmix64.
func (d *dice) uniform() float64 {
	d.x += 0x9e3779b97f4a7c15
	z := (d.x ^ d.x>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// normal returns a number of the standard normal distribution.
func (d *dice) normal() float64 {
	radius := math.Sqrt(-2 * math.Log(1-d.uniform()))
	return radius * math.Cos(2*math.Pi*d.uniform())
}

// around draws a time around a median, in tenths of a second: log-normal, from a tenth to ten times the median.
func (d *dice) around(median time.Duration) time.Duration {
	const sigma = 0.5
	factor := min(max(math.Exp(float64(sigma*d.normal())), 0.1), 10)
	return time.Duration(factor*float64(median)) / (100 * time.Millisecond) * (100 * time.Millisecond)
}
