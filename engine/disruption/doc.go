// Package disruption decides which nodes go: those that are empty, that pods leave for less money, that have drifted, expired or broken.
// Plan lists them, Progress says how disruptions with replacements go on, and a Checker whether part of an older plan is still right.
package disruption
