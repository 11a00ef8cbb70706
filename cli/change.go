package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/scenario"
)

// changedObjects describes a file of --change in help texts.
const changedObjects = "has this file's objects in place of those of their names, or beside the others: NodePools, NodeOverlays, CapacityBuffers with their PodTemplates, Deployments; - for standard input"

// addChangeFlag adds the flag of a file of changed objects.
func (o *planOptions) addChangeFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.change, "change", "", "answer for a cluster that "+changedObjects)
}

// apply adds the objects of --change to the cluster.
func (o *planOptions) apply(reading *scenario.Reading, stdin io.Reader) error {
	changed, err := readChange(o.change, reading.Snapshot, reading.Ignored, stdin)
	if err != nil {
		return err
	}
	s, over := lifecycle.Refresh(changed.Snapshot)
	reading.Snapshot, reading.Notes = s, slices.Concat(reading.Notes, changed.Notes, over)
	return nil
}

// readChange reads a file of --change, and returns the cluster with its objects.
func readChange(path string, s *engine.Snapshot, ignored map[string]bool, stdin io.Reader) (*scenario.Changed, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("--change: %w", err)
	}
	changed := changeOf(s, ignored, text)
	var mistakes []error
	for _, m := range changed.Mistakes {
		where := title(path)
		if m.Line > 0 {
			where = fmt.Sprintf("%s, line %d", where, m.Line)
		}
		if m.Field != "" {
			where += ", " + m.Field
		}
		mistakes = append(mistakes, fmt.Errorf("--change: %s: %s", where, m.Text))
	}
	return changed, errors.Join(mistakes...)
}

// changeOf is scenario.Change for a controller that ignores some kinds. Objects of these kinds are mistakes, because they would have no
// effect.
func changeOf(s *engine.Snapshot, ignored map[string]bool, text []byte) *scenario.Changed {
	changed := scenario.Change(s, text)
	var mistakes []scenario.Mistake
	for _, o := range changed.Objects {
		if ignored[o.Kind] {
			mistakes = append(mistakes, scenario.Mistake{Text: fmt.Sprintf("the controller runs without the feature gate %s: it would do nothing with %s", o.Kind, o.Name)})
		}
	}
	changed.Mistakes = append(mistakes, changed.Mistakes...)
	return changed
}
