// Package ondemand chooses the pods that have to run on on-demand machines, so that each owner has the requested share of its pods there.
package ondemand
