// Package capacity counts resources: amounts as vectors of integers, indexed by interned resource names. The caller chooses the units: the engine
// counts cpu in thousandths of a core, memory and storage in bytes, and all other resources in pieces.
package capacity

import "encoding/binary"

// Most is the largest amount that a vector may hold. It leaves room to add up many of them.
const Most = int64(1) << 56

// Vector holds one amount for each resource.
type Vector []int64

// Clone returns a copy that shares nothing with v.
func (v Vector) Clone() Vector { return append(Vector(nil), v...) }

// Add adds n times w to v.
func (v Vector) Add(w Vector, n int64) {
	for i := range v {
		v[i] = clamp(v[i], w[i], n)
	}
}

// clamp is a + b·n, kept within ±Most so that nothing overflows.
func clamp(a, b, n int64) int64 {
	if n != 1 && n != -1 && b != 0 && (n > Most/abs(b) || n < -Most/abs(b)) {
		if (b > 0) == (n > 0) {
			return Most
		}
		return -Most
	}
	return max(-Most, min(Most, a+b*n))
}

func abs(a int64) int64 { return max(a, -a) }

// Fits reports whether what v asks for is in have. What v does not ask for does not matter, however short it is.
func (v Vector) Fits(have Vector) bool {
	for i := range v {
		if v[i] > 0 && v[i] > have[i] {
			return false
		}
	}
	return true
}

// Overdrawn reports whether there is less than nothing left of something that the need asks for.
func (v Vector) Overdrawn(need Vector) bool {
	for i, n := range need {
		if n > 0 && v[i] < 0 {
			return true
		}
	}
	return false
}

// Times counts how often v fits into have, at most limit times.
func (v Vector) Times(have Vector, limit int) int {
	n := int64(limit)
	for i := range v {
		if v[i] > 0 {
			n = min(n, max(0, have[i])/v[i])
		}
	}
	return int(max(0, n))
}

// Max raises every amount of v to that of w.
func (v Vector) Max(w Vector) {
	for i := range v {
		v[i] = max(v[i], w[i])
	}
}

// Min lowers every amount of v to that of w.
func (v Vector) Min(w Vector) {
	for i := range v {
		v[i] = min(v[i], w[i])
	}
}

// Text is the vector as text that only equal vectors share.
func (v Vector) Text() string {
	text := make([]byte, 0, 8*len(v))
	for _, n := range v {
		text = binary.LittleEndian.AppendUint64(text, uint64(n))
	}
	return string(text)
}

// Names gives every resource name its index.
type Names struct {
	names []string
	index map[string]int
}

// Index returns the index of name, giving it the next one if it is new.
func (n *Names) Index(name string) int {
	if i, ok := n.index[name]; ok {
		return i
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[name] = len(n.names)
	n.names = append(n.names, name)
	return len(n.names) - 1
}

// Find returns the index of name, -1 if it has none.
func (n *Names) Find(name string) int {
	if i, ok := n.index[name]; ok {
		return i
	}
	return -1
}

// Name returns the name with index i.
func (n *Names) Name(i int) string { return n.names[i] }

// Len counts the names.
func (n *Names) Len() int { return len(n.names) }
