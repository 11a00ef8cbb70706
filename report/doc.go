// Package report tells people and monitoring about decisions and actions of the controllers: events on objects, metrics, and the log lines that name
// a decision. All controllers share it, so that a thing has one name everywhere.
//
// What is worth deciding is left to package engine, and when to say it to the controllers; nothing here reads the
// cluster but the metrics that are computed from a snapshot.
package report

//go:generate go test . -run ReferenceOfMetrics -rewrite
