// Package replacement says how disruptions go on that wait for replacements: they are finished once these are ready, or taken back. All
// that it knows of them stands on the claims, also what has failed, and until when that keeps others from being tried.
package replacement
