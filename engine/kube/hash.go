package kube

import (
	"maps"
	"slices"
	"strconv"
)

// Mixed returns n with its bits spread (the finalizer of splitmix64). It gives equal nodes a fixed order, instead of kube-scheduler's random choice.
func Mixed(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// Digest is a hash of texts and numbers, the same in every process (FNV-1a of 64 bits). Each text is followed by its length, so that the borders
// between texts matter.
type Digest uint64

// NewDigest returns the digest of nothing.
func NewDigest() Digest { return 0xcbf29ce484222325 }

const digestPrime = 0x100000001b3

// Text returns the digest with one more text.
func (d Digest) Text(s string) Digest {
	for i := range len(s) {
		d = (d ^ Digest(s[i])) * digestPrime
	}
	return d.Number(len(s))
}

// Number returns the digest with one more number.
func (d Digest) Number(n int) Digest {
	for range 8 {
		d = (d ^ Digest(n&0xff)) * digestPrime
		n >>= 8
	}
	return d
}

func (d Digest) String() string { return strconv.FormatUint(uint64(d), 36) }

// DigestMap returns the digest with the map, sorted by key.
func DigestMap[K ~string, V any](d Digest, m map[K]V, with func(Digest, V) Digest) Digest {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d = with(d.Text(string(key)), m[key])
	}
	return d.Number(len(m))
}
