// Package launchbackoff finds out which machines did not take the pods that they were started for, and why, and what pools are to
// remember of it. What that keeps from being started is left to provisioning.
package launchbackoff
