// Package buffer handles CapacityBuffers: it computes the number and the shape of the pods for which room is kept. It makes pods that represent
// them in plans, and sums up the room of each buffer. Planning gives these pods the lowest priority. Pods of the cluster do not see them, and no
// node ever runs them.
package buffer
