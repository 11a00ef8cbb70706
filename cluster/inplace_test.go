package cluster

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func pods(n int) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = &corev1.Pod{}
	}
	return out
}

func shuffled(list []*corev1.Pod, r *rand.Rand) []*corev1.Pod {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// In whatever order a cache lists the objects, unchanged objects keep their order.
func TestWhatHasNotChangedStandsWhereItStood(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	all := pods(2000)
	first := shuffled(all, r)
	inPlace(first)
	second := append(shuffled(all, r)[:1990], pods(5)...) // ten have gone, five have come
	inPlace(second)
	kept := func(list, other []*corev1.Pod) []*corev1.Pod {
		in := map[*corev1.Pod]bool{}
		for _, p := range other {
			in[p] = true
		}
		return slices.DeleteFunc(slices.Clone(list), func(p *corev1.Pod) bool { return !in[p] })
	}
	if a, b := kept(first, second), kept(second, first); len(a) != 1990 || !slices.Equal(a, b) {
		t.Errorf("%d and %d of 1990 objects are in both lists, in the same order: %t", len(a), len(b), slices.Equal(a, b))
	}
}

func BenchmarkInPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	all := pods(100_000)
	for b.Loop() {
		b.StopTimer()
		list := shuffled(all, r)
		b.StartTimer()
		inPlace(list)
	}
}
