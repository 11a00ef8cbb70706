// Package bitset holds sets of small integers as bits in words. The caller decides which things the integers number.
package bitset

import (
	"encoding/binary"
	"math/bits"
)

// Set is a set of integers from 0 up. The zero value is an empty set without room; New makes room. Sets that are
// combined must have been made with the same size.
type Set []uint64

// New returns an empty set with room for the integers below n.
func New(n int) Set { return make(Set, (n+63)/64) }

// Full returns the set of all integers below n.
func Full(n int) Set {
	s := New(n)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[len(s)-1] = 1<<(n%64) - 1
	}
	return s
}

// Of returns a set with room for the integers below n that holds members.
func Of(n int, members ...int) Set {
	s := New(n)
	for _, i := range members {
		s.Add(i)
	}
	return s
}

func (s Set) Add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s Set) Remove(i int)   { s[i/64] &^= 1 << (i % 64) }
func (s Set) Has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

// Clone returns a copy that shares nothing with s.
func (s Set) Clone() Set { return append(Set(nil), s...) }

// And keeps in s what is also in t.
func (s Set) And(t Set) {
	for i := range s {
		s[i] &= t[i]
	}
}

// AndNot removes from s what is in t.
func (s Set) AndNot(t Set) {
	for i := range s {
		s[i] &^= t[i]
	}
}

// Or adds to s what is in t.
func (s Set) Or(t Set) {
	for i := range s {
		s[i] |= t[i]
	}
}

// Empty reports whether s holds nothing.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Meets reports whether s and t have a member in common.
func (s Set) Meets(t Set) bool {
	for i := range s {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// Within reports whether every member of s is in t.
func (s Set) Within(t Set) bool {
	for i := range s {
		if s[i]&^t[i] != 0 {
			return false
		}
	}
	return true
}

// Len counts the members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Next returns the smallest member that is i or more, -1 if there is none:
//
//	for i := s.Next(0); i >= 0; i = s.Next(i + 1) { … }
func (s Set) Next(i int) int {
	if i/64 >= len(s) {
		return -1
	}
	w := s[i/64] >> (i % 64)
	if w != 0 {
		return i + bits.TrailingZeros64(w)
	}
	for k := i/64 + 1; k < len(s); k++ {
		if s[k] != 0 {
			return k*64 + bits.TrailingZeros64(s[k])
		}
	}
	return -1
}

// AppendText appends the set as text that only equal sets of the same length share.
func (s Set) AppendText(text []byte) []byte {
	for _, w := range s {
		text = binary.LittleEndian.AppendUint64(text, w)
	}
	return text
}
