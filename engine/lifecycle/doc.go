// Package lifecycle decides the next step of one NodeClaim, from the launch of its machine to its end: Next reads a Life and returns a Step. The
// package also decides how to react to a cloud's notices (Interrupt), and finds machines and nodes without an owner (Orphans). The scenarios in
// testdata are examples of its rules; go test ./engine -run TestScenarios runs them.
package lifecycle
