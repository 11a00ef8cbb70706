// Package cluster is the live mirror of the API server and of the providers' catalogs. It makes Snapshots for the engine, and it is the only writer
// of NodeClaims. Each later Snapshot contains its own writes, even before the watches show them, so that no decision is made twice.
//
// The package decides nothing. If one object is incomplete or broken, Snapshot still contains the others.
package cluster
