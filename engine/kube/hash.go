package kube

// Mixed spreads the bits of n (the finalizer of splitmix64): the fixed order in which equal nodes are taken, in place of
// kube-scheduler's dice.
func Mixed(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
