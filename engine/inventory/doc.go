// Package inventory is what there is: the pods, nodes, claims and catalogs of a Snapshot, joined into machines and their pods, with what
// has begun and is not over (launches, disruptions with replacements), prices, and what running machines tell of others.
//
// Its Cache remembers from call to call what has been read. Deciders keep there what they remember themselves (KeptBy).
package inventory
