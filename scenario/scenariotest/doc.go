// Package scenariotest gives clusters to tests: from a few lines of the scenario notation, drawn by chance, or from the engine's scenario
// files. Only tests in packages named _test can import it, because package scenario imports most of the engine; package enginetest serves
// the others.
package scenariotest
