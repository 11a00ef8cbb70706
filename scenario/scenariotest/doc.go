// Package scenariotest provides clusters for tests: from a few lines of the scenario notation, random ones, or from the engine's scenario
// files. Only tests in packages named _test can import it, because package scenario imports most of the engine. Package enginetest serves the
// others.
package scenariotest
