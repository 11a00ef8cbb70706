package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// The forms of a command's output.
const (
	outputText = "text"
	outputJSON = "json"
	outputYAML = "yaml"
)

// addOutputFlag adds the flag that selects the form.
func addOutputFlag(flags *pflag.FlagSet, output *string) {
	flags.StringVarP(output, "output", "o", outputText, "text, json or yaml")
}

func checkOutput(output string) error {
	return oneOf("output", output, outputText, outputJSON, outputYAML)
}

// writeAs writes a document in the selected form. The function write writes it as JSON.
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
