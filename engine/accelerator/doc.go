// Package accelerator computes the resources that the device plugins of accelerators show for a machine's devices: whole devices, time-sliced
// shares, or slices of a MIG layout.
package accelerator
