package workload

import (
	"crypto/sha512"
	"encoding/binary"
	"math"
	"math/bits"
)

// mersenne is the random generator of Python's module random: MT19937, with that module's ways to compute fractions, choices and normal
// draws. The published figures of the cost workloads were drawn with it, so mersenne gives the same pods for the same seed.
type mersenne struct {
	words [624]uint32
	next  int
}

// newMersenne seeds the generator with a text like random.Random(text): the key is the text and its SHA-512, read as one large number, whose
// lowest 32 bits come first.
func newMersenne(text string) *mersenne {
	sum := sha512.Sum512([]byte(text))
	number := append([]byte(text), sum[:]...)
	for len(number)%4 != 0 {
		number = append([]byte{0}, number...)
	}
	key := make([]uint32, len(number)/4)
	for i := range key {
		key[len(key)-1-i] = binary.BigEndian.Uint32(number[4*i:])
	}
	m := &mersenne{}
	m.seed(key)
	return m
}

// seed is init_by_array of the generator's reference implementation.
func (m *mersenne) seed(key []uint32) {
	w := &m.words
	w[0] = 19650218
	for i := 1; i < len(w); i++ {
		w[i] = 1812433253*(w[i-1]^w[i-1]>>30) + uint32(i)
	}
	i := 1
	advance := func() {
		if i++; i == len(w) {
			w[0], i = w[len(w)-1], 1
		}
	}
	for k := range max(len(w), len(key)) {
		j := k % len(key)
		w[i] = (w[i] ^ (w[i-1]^w[i-1]>>30)*1664525) + key[j] + uint32(j)
		advance()
	}
	for range len(w) - 1 {
		w[i] = (w[i] ^ (w[i-1]^w[i-1]>>30)*1566083941) - uint32(i)
		advance()
	}
	w[0] = 1 << 31
	m.next = len(w)
}

// word returns the next 32 bits.
func (m *mersenne) word() uint32 {
	if m.next == len(m.words) {
		m.twist()
	}
	y := m.words[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mersenne) twist() {
	w := &m.words
	for i := range w {
		y := w[i]&(1<<31) | w[(i+1)%len(w)]&(1<<31-1)
		w[i] = w[(i+397)%len(w)] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	m.next = 0
}

// fraction is random(): 53 random bits in [0, 1).
func (m *mersenne) fraction() float64 {
	high, low := m.word()>>5, m.word()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// below returns a number in [0, n), for n up to 2^31.
func (m *mersenne) below(n int) int {
	width := bits.Len(uint(n))
	for {
		if r := int(m.word() >> (32 - width)); r < n {
			return r
		}
	}
}

// logNormal is lognormvariate(mu, sigma), by the method of Kinderman and Monahan. The conversions prevent the compiler from fusing a product
// and a sum into one operation with another rounding.
func (m *mersenne) logNormal(mu, sigma float64) float64 {
	magic := 4 * math.Exp(-0.5) / math.Sqrt(2)
	for {
		u1 := m.fraction()
		u2 := 1 - m.fraction()
		z := magic * (u1 - 0.5) / u2
		if z*z/4 <= -math.Log(u2) {
			return math.Exp(mu + float64(z*sigma))
		}
	}
}

// choose is choice(from).
func choose[T any](m *mersenne, from ...T) T { return from[m.below(len(from))] }
