// Package prometheus holds tests with Prometheus itself: it is a process next to a real control plane, finds Tenon by the objects that
// the chart makes, and loads the rules that are shipped. The module in the folder program pins Prometheus and nothing else.
package prometheus
