// Package explain says why: why a pod waits or runs where it does, why a node stays or goes, what a pool can start, and what other pools
// or policies would have saved. Its records are values that programs read as JSON.
package explain
