// Package clusterapi holds tests with the controllers of Cluster API itself: its core, the kubeadm bootstrap and control plane
// providers and its infrastructure provider for development, whose machines are in memory. Each is a process of its own that can
// be killed, next to a real API server. They bring many modules along, so they are kept out of the module that is shipped.
package clusterapi
