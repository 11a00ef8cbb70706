// Package trace reads and writes traces: CSV or JSON files of the times at which pods came and went, their requests and their owners. A simulation
// replays a trace. The package also makes traces from the data of Prometheus.
//
// A trace is CSV with a line of column names, or lines of JSON, one pod in each, as plain text or gzip. Everything is read and
// checked before the first pod is replayed: what cannot be read is an Error with file and line.
package trace
