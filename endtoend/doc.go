// Package endtoend holds the tests and benchmarks of the whole: the real API server, scheduler and controller manager,
// simulated machines, and Tenon as a process of its own that can be killed.
package endtoend
