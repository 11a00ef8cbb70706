// Package buffer makes CapacityBuffers count: it says how many pods room is kept for and of what shape, makes pods that stand for them
// in plans and nowhere else, and sums up what has become of each buffer. Planning treats such pods as pods of the lowest priority;
// pods of the cluster do not see them, and nobody is ever told to run them.
package buffer
