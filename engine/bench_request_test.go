package engine_test

import (
	"fmt"
	"testing"

	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// BenchmarkManyRequests plans for many ProvisioningRequests of both classes, most of which find no room, on nodes that have some.
func BenchmarkManyRequests(b *testing.B) {
	for _, class := range []string{"check", "atomic"} {
		for _, n := range []int{125, 250, 500, 1000} {
			b.Run(fmt.Sprintf("%s/%d", class, n), func(b *testing.B) {
				file, err := scenario.Parse(manyRequests(class, n))
				if err != nil {
					b.Fatal(err)
				}
				cache := &inventory.Cache{}
				for b.Loop() {
					provisioning.Plan(file.Snapshot, file.Options, cache)
				}
			})
		}
	}
}

// manyRequests is a cluster of 100 nodes with a fifth of its room left, and so many requests of various sizes.
func manyRequests(class string, n int) string {
	text := "pool general limits=cpu:500\ntype four cpu=4 mem=16Gi price=0.2\n"
	for i := range 100 {
		text += fmt.Sprintf("node n%d pool=general type=four\npod p%d cpu=3 node=n%d\n", i, i, i)
	}
	for i := range n {
		text += fmt.Sprintf("request r%d class=%s count=%d cpu=%dm age=%ds\n", i, class, 3+i%7, 500+100*(i%5), n-i)
	}
	return text
}
