// Package advice finds changes that would make a plan cheaper. It computes the plan again for snapshots and options in which one constraint of
// pools, pods or the controller is lifted, and ranks the savings. A saving is the difference between the costs of two plans for the same pods, so
// nothing is estimated.
package advice
