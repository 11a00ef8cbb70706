// Package offering lists the machines that NodePools can start: their classes' catalogs as options of package packing. If a pool has no option for a
// pod, the package finds the reason.
package offering
