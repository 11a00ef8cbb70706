// Package advice says what would make a plan cheaper: it makes the plan again for snapshots and options in which one thing is allowed
// that pools, pods or the controller do not allow, and ranks what that saves. Nothing is estimated: what a suggestion saves is the
// difference between what two plans for the same pods cost.
package advice
