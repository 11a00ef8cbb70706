// Package disruption decides which nodes go: those that are empty, that pods leave for less money, that have drifted, expired or broken.
// Plan lists them, and a Checker says whether part of an older plan is still right.
package disruption
