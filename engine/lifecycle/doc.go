// Package lifecycle decides the next step of one NodeClaim, from the launch of its machine to its end: Next reads a Life and gives a
// Step. What the cloud announces about machines (Interrupt), and what nobody owns any more (Orphans), is decided here too.
// Its rules are told by the scenarios in testdata, which go test ./engine -run TestScenarios runs.
package lifecycle
