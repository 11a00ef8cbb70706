package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/crds"
	"tenon.sh/cluster"
)

func newCRDs() *cobra.Command {
	var apply bool
	var kubeconfig string
	command := &cobra.Command{
		Use:   "crds",
		Short: "Print the definitions of Tenon's kinds, or apply them",
		Args:  noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if !apply {
				return printCRDs(command.OutOrStdout())
			}
			return applyCRDs(command.Context(), kubeconfig, newTerminal(command.OutOrStdout()))
		},
	}
	flags := command.Flags()
	flags.BoolVar(&apply, "apply", false, "apply them to the cluster (server-side apply) instead of printing them")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty for the usual places")
	return command
}

func printCRDs(out io.Writer) error {
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	for _, crd := range definitions {
		text, err := yaml.Marshal(crd)
		if err != nil {
			return fmt.Errorf("print CRD %s: %w", crd.Name, err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

func applyCRDs(ctx context.Context, kubeconfig string, t *terminal) error {
	config, err := restConfig(kubeconfig, "")
	if err != nil {
		return err
	}
	if err := cluster.ApplyCRDs(ctx, config); err != nil {
		return err
	}
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	for _, crd := range definitions {
		t.line("applied %s", crd.Name)
	}
	return nil
}
