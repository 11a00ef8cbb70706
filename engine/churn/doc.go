// Package churn notices machines that are started and removed again and again for pods of one owner, and says how long its pool would
// have to wait for the next of them. It follows snapshots and decides nothing.
package churn
