// Package ondemand chooses the pods that have to run on on-demand machines, so that each owner has the share of its pods there that it asks for.
package ondemand
