package dra_test

import (
	"fmt"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine/dra"
)

// BenchmarkPublish reads the slices of 5,000 nodes, two slices of eight devices each.
func BenchmarkPublish(b *testing.B) {
	type attributes = map[resourcev1.QualifiedName]string
	var list []*resourcev1.ResourceSlice
	for i := range 5000 {
		var eight []attributes
		for range 8 {
			eight = append(eight, attributes{"model": "m"})
		}
		for _, driver := range []string{"gpu.example.com", "nic.example.com"} {
			s := ofNode(fmt.Sprint("n", i), 1, eight...)
			s.Name, s.Spec.Driver = fmt.Sprint(driver, i), driver
			s.Spec.Pool.Name = fmt.Sprint("n", i)
			list = append(list, s)
		}
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			dra.Publish(list)
		}
	})
	p := dra.Publish(list)
	b.Run("drivers of 100 nodes", func(b *testing.B) {
		for b.Loop() {
			for i := range 100 {
				p.Drivers(nodeNamed(fmt.Sprint("n", i)))
			}
		}
	})
}
