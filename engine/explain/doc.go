// Package explain gives the reasons of decisions: why a pod waits or runs on its node, why a node stays or goes, which machines a pool can start,
// and how much other pools or policies would have saved. Its records are values that programs read as JSON.
package explain
