package workload

import (
	"math"
	"testing"
)

// The figures are the output of Python 3.11 for random.Random("tenon").
func TestMersenneDrawsWhatPythonDraws(t *testing.T) {
	t.Parallel()
	m := newMersenne("tenon")
	for _, want := range []uint32{2577574178, 4059678657, 629522279} {
		if got := m.word(); got != want {
			t.Errorf("word: got %d, want %d", got, want)
		}
	}
	if got := m.fraction(); got != 0.30480389942184505 {
		t.Errorf("fraction: got %v", got)
	}
	if got := m.logNormal(6.2, 1); math.Abs(got/460.15523473342427-1) > 1e-15 {
		t.Errorf("logNormal: got %v", got)
	}
	for i, want := range []int{1, 6, 5, 6, 3, 6, 3, 3} {
		if got := m.below(7); got != want {
			t.Errorf("below, draw %d: got %d, want %d", i, got, want)
		}
	}
	for range 2000 {
		m.fraction()
	}
	if got := m.fraction(); got != 0.30840817888908434 {
		t.Errorf("fraction after three more rounds: got %v", got)
	}
}
