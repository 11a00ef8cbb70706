// Package scenariotest gives tests clusters: those that a few lines of the scenario notation describe, those that are drawn by chance, and
// those of the engine's scenario files. It is for test packages outside the packages that they test; package enginetest, which
// does without the notation, is for tests inside the packages that package scenario imports.
package scenariotest
