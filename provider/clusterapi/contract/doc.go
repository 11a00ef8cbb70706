// Package contract holds the fields of Cluster API's objects that the provider reads, in the versions v1beta1 and v1beta2 of the API. If a
// field moved between the two, a method looks in both places. Objects are never written whole, only patched and scaled, so that all other
// fields stay as they are.
//
// +kubebuilder:object:generate=true
package contract
