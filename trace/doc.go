// Package trace reads and writes traces: CSV or JSON files of the times at which pods came and went, their requests and their owners. A simulation
// replays a trace. The package also makes traces from the data of Prometheus.
//
// A trace is CSV with a line of column names, or lines of JSON, one pod in each line, as plain text or gzip. The whole file is read and
// checked before the first pod is replayed. An unreadable part is an Error with file and line.
package trace
