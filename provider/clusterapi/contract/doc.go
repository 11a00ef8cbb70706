// Package contract holds the fields that are read of Cluster API's objects, in the versions v1beta1 and v1beta2 of its API. If a field moved between
// the two, a method looks in both places. Objects are never written whole, only patched and scaled, so that all other fields stay as they are.
//
// +kubebuilder:object:generate=true
package contract
