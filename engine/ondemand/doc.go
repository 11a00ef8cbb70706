// Package ondemand says which pods have to run on machines on demand, so that their owners have the share there that they ask for.
package ondemand
