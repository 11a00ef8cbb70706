package report_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/report"
)

// The log line about pods without a machine names the namespaces whose pods have too many rules, the namespaces with most pods first.
func TestTheLineOfPodsWithoutAMachineNamesNamespacesThatAskTooMuch(t *testing.T) {
	t.Parallel()
	refused := func(namespace string, r engine.Reason) engine.Unplaced {
		return engine.Unplaced{Pod: engine.PodID{Namespace: namespace, Name: "p"}, Reasons: []engine.Reason{r}}
	}
	tooComplex := func(have string) engine.Reason { return engine.Reason{Code: engine.TooComplex, Need: "7", Have: have} }
	line := report.UnplacedLine([]engine.Unplaced{
		refused("few", tooComplex("9000")), refused("many", tooComplex("8000")), refused("many", tooComplex("8000")), refused("other", engine.Reason{Code: engine.NotOnManagedNodes}),
	})
	got, there := valueOf(line, "namespacesAskingTooMuch").([]string)
	if !there || len(got) != 2 || got[0] != "many: 2 pods, 8000 rules" || got[1] != "few: 1 pods, 9000 rules" {
		t.Errorf("the line says %q", line)
	}
	if line := report.UnplacedLine([]engine.Unplaced{refused("other", engine.Reason{Code: engine.NotOnManagedNodes})}); valueOf(line, "namespacesAskingTooMuch") != nil {
		t.Errorf("nobody asks for too much, and the line says %q", line)
	}
}

func valueOf(line []any, key string) any {
	for i := 0; i+1 < len(line); i += 2 {
		if line[i] == key {
			return line[i+1]
		}
	}
	return nil
}
