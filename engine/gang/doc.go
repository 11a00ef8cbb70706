// Package gang finds the pods that start together or not at all: the pods of PodGroups with the policy gang. kube-scheduler holds such a pod until
// enough pods of the group exist. It then looks for places for all of them at once, and binds none of them before enough have a place.
package gang
