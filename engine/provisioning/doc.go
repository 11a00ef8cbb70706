// Package provisioning decides which pods run on nodes that are there and which machines to start for the others. Plan compiles a
// Snapshot to a problem of package packing and gives the solution its names, prices and reasons.
package provisioning
