// Package replacement decides how disruptions with replacements go on: they are finished once the replacements are ready, in whole or in part, or
// they are taken back. The NodeClaims record their state, and the failed attempts that keep nodes from being replaced for a while.
package replacement
