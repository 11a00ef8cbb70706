// Package gang knows which pods start together or not at all: those of PodGroups with the policy gang. kube-scheduler holds such a pod
// until as many exist as have to start together, then looks for places for all of them at once, and binds none before there are enough.
package gang
