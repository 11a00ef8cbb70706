package device_test

import (
	"testing"

	"tenon.sh/engine/device"
)

// The claims request all of a machine's 8 GPUs, and one more than there are.
func BenchmarkAllocate(b *testing.B) {
	pools := []device.Pool{pool("gpu", h100, h100, h100, h100, h100, h100, h100, h100), pool("nic", nic, nic, nic, nic)}
	f, usage := facts(), device.NewUsage()
	for name, claims := range map[string][]device.Claim{"1of8": claim(exactly(1, isGPU, isLarge)), "8of8": claim(exactly(8, isGPU, isLarge)), "9of8": claim(exactly(9, isGPU, isLarge))} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				device.Allocate(f, pools, usage, claims, 0)
			}
		})
	}
}
