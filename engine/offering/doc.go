// Package offering says what machines NodePools can start: their classes' catalogs as options of package packing, and what keeps a pool
// from having any for a pod. Which of them are started is for others to decide.
package offering
