// Package contract holds what is read of Cluster API's objects, in the versions v1beta1 and v1beta2 of its API: fields that
// moved between the two are asked for by methods that look at both places. Objects are never written whole, only patched
// and scaled, so that what is not listed here stays as it is.
//
// +kubebuilder:object:generate=true
package contract
