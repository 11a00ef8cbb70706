package parallel_test

import (
	"strings"
	"testing"

	"tenon.sh/engine/parallel"
)

func TestAllPartsRunAndTheFirstPanicIsTheCallers(t *testing.T) {
	t.Parallel()
	parallel.Run()
	var done [4]bool
	defer func() {
		if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "two") || !strings.Contains(p, "parallel_test.go") {
			t.Errorf("recovered %v", p)
		}
		if done != [4]bool{true, false, true, false} {
			t.Errorf("parts that ran to their end: %v", done)
		}
	}()
	parallel.Run(
		func() { done[0] = true },
		func() { panic("two") },
		func() { done[2] = true },
		func() { panic("four") },
	)
}
