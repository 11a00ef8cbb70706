// Package volume computes the constraints that the volumes of a pod put on its node: the places where the volumes are or may be created, the number
// of volumes of each driver that a node takes, and the pods that may share a volume.
package volume
