// Package launchbackoff finds machines that did not take the pods for which they were started. It finds the reason, and computes the record that is
// written on the NodePool. Package provisioning reads this record and decides which launches have to wait.
package launchbackoff
