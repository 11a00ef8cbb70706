// Package trace reads when pods came and went, what they asked for and whose they were: traces, which a simulation replays. It
// writes them too, and makes them of what Prometheus and API servers have recorded. What pods run on is left to the simulation.
//
// A trace is CSV with a line of column names, or lines of JSON, one pod in each, as plain text or gzip. Everything is read and
// checked before the first pod is replayed: what cannot be read is an Error with file and line.
package trace
