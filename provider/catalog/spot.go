package catalog

import (
	"hash/fnv"
	"math"
	"strings"
)

// spotPrice returns an invented spot price, because there are no public figures that could be shipped. The ratio of spot to on-demand price
// is log-normal: exp(-1.0 + 0.25·f + 0.04·z), where f is a standard normal draw by family and z one by family and zone, each a hash of those
// names. So the mean discount is about 63 %, families differ (nine in ten lie between 45 % and 75 %), zones differ by a few per cent, all
// sizes of a family have the same discount, and the same names always give the same price. A spot price never exceeds the on-demand price.
func spotPrice(name, zone string, onDemand float64) float64 {
	family, _, _ := strings.Cut(name, ".")
	ratio := math.Exp(-1 + 0.25*normal(family) + 0.04*normal(family+"/"+zone))
	return min(onDemand, roundTo(onDemand*ratio, 1e6))
}

// normal returns a draw from about the standard normal distribution that depends on name only: the sum of 12 uniform draws.
func normal(name string) float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	x := h.Sum64()
	sum := -6.0
	for range 12 {
		x += 0x9e3779b97f4a7c15 // splitmix64, which spreads the hash over all bits
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		sum += float64((z^z>>31)>>11) / (1 << 53)
	}
	return sum
}
