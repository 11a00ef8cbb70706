// Package replacement decides how disruptions with replacements go on: they are finished once the replacements are ready, in whole or in part, or
// they are taken back. Their state is written on the NodeClaims. So are failed attempts, and the time until which these keep other nodes from being
// replaced.
package replacement
