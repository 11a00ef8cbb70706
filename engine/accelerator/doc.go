// Package accelerator says what the device plugins of accelerators show of a machine's devices: whole ones, parts that take turns,
// slices of a MIG layout. It only computes; who wants what of whose machines is for others.
package accelerator
