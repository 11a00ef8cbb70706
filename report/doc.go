// Package report informs people and monitoring about decisions and actions of the controllers: events on objects, metrics, and the log lines that
// name a decision. All controllers share it, so that a thing has one name everywhere.
//
// Package engine decides which facts matter, and the controllers decide when to report them. Only the metrics that are computed from a
// snapshot read the cluster here.
package report

//go:generate go test . -run ReferenceOfMetrics -rewrite
