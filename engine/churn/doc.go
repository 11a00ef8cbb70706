// Package churn finds machines that are started and removed again and again for pods of one owner, and computes the consolidateAfter with which
// their pool would keep the next of them. It follows snapshots and decides nothing.
package churn
