// Package cluster is the live mirror of the API server and of the providers' catalogs: it hands out Snapshots for the
// engine, and it is the one writer of NodeClaims. What it wrote itself is part of every later Snapshot, even before the
// watches show it, so that no decision is taken twice.
//
// It decides nothing, and nothing that is missing or broken in one object keeps it from showing the others.
package cluster
