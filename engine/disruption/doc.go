// Package disruption decides which nodes to remove: nodes that are empty, nodes whose pods can run for less money elsewhere, and nodes that have
// drifted, expired or broken. Plan lists them, and a Checker reports whether part of an older plan is still right.
package disruption
