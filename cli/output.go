package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Forms that a command's answer has.
const (
	outputText = "text"
	outputJSON = "json"
	outputYAML = "yaml"
)

// addOutputFlag adds the flag that chooses the form.
func addOutputFlag(flags *pflag.FlagSet, output *string) {
	flags.StringVarP(output, "output", "o", outputText, "text, json or yaml")
}

func checkOutput(output string) error {
	return oneOf("output", output, outputText, outputJSON, outputYAML)
}

// writeAs writes a document, which write writes as JSON, in the form that is wanted.
func writeAs(out io.Writer, output string, write func(out io.Writer) error) error {
	if output != outputYAML {
		return write(out)
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	document, err := yaml.JSONToYAML(text.Bytes())
	if err != nil {
		return fmt.Errorf("write the answer as YAML: %w", err)
	}
	_, err = out.Write(document)
	return err
}
