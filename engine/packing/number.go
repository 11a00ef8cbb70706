package packing

import "slices"

// renumber gives the places of each class to the pods with the lowest Number, because no pod should lack a place while an equal pod with a higher
// Number has one. The order of places does not change, only the pods in them.
func renumber(p *Problem, s *Solution) {
	number := make([][]int, len(p.Classes)) // nil for classes whose pods without a place are the last ones already
	next := make([]int, len(p.Classes))
	for c, left := range s.Left {
		if n := len(left); n > 0 && left[0] != p.Classes[c].Count-n {
			number[c] = make([]int, p.Classes[c].Count)
			for i := range left {
				left[i] = p.Classes[c].Count - n + i
			}
		}
	}
	for i := range s.Order {
		pod := &s.Order[i]
		if number[pod.Class] != nil {
			number[pod.Class][pod.Number] = next[pod.Class]
			pod.Number = next[pod.Class]
			next[pod.Class]++
		}
	}
	rename := func(shares []Share) {
		for i := range shares {
			if to := number[shares[i].Class]; to != nil {
				for j, pod := range shares[i].Pods {
					shares[i].Pods[j] = to[pod]
				}
				slices.Sort(shares[i].Pods)
			}
		}
	}
	for n := range s.OnNodes {
		rename(s.OnNodes[n])
	}
	for m := range s.New {
		rename(s.New[m].Pods)
	}
}
