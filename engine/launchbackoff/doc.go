// Package launchbackoff finds out which machines did not take the pods that they were started for, and why, and what is recorded of it on the
// pools. Package provisioning decides which launches have to wait for it.
package launchbackoff
