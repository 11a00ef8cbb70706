package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario"
)

func newSnapshot() *cobra.Command {
	o := liveOptions{}
	var output string
	command := &cobra.Command{
		Use:   "snapshot",
		Short: "Write the live cluster, as far as Tenon's decisions depend on it, to a file",
		Long: `Writes the objects that Tenon's decisions depend on as YAML, and last a document of kind Catalog with what no object of
the cluster holds: what there is to buy, as the controller sees it now, its options, what its passes of disruption have
found so far, and the time. tenon plan -f gives the same plan for it, anywhere.

Secrets, and the environments, arguments, commands and probes of containers, are left out. The cluster is only read.`,
		Args: noArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var text bytes.Buffer
			if err := o.write(command.Context(), &text, newTerminal(command.ErrOrStderr())); err != nil {
				return err
			}
			if output == "" {
				_, err := command.OutOrStdout().Write(text.Bytes())
				return err
			}
			if err := os.WriteFile(output, text.Bytes(), 0o600); err != nil {
				return fmt.Errorf("write the snapshot: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "file to write; empty for standard output")
	o.addFlags(command.Flags())
	return command
}

// write reads the cluster and its catalog, and only then writes the snapshot.
func (o *liveOptions) write(ctx context.Context, out io.Writer, notes *terminal) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	documents, err := liveObjects(ctx, config, notes)
	if err != nil {
		return err
	}
	document, err := o.catalog(ctx, config)
	if err != nil && o.catalogURL == "" && !holds(documents, v1.Group, "NodePool") {
		err = nil // there is no controller, and no pool for one
	}
	if err != nil {
		return fmt.Errorf("no catalog from the controller (name its address with --catalog-url, or do without it with --catalog-url none): %w", err)
	}
	if document == nil {
		if document, err = builtInCatalog(documents, notes); err != nil {
			return err
		}
	}
	return scenario.WriteDocuments(out, inForce(served(documents, document, notes), document, notes), *document)
}

// builtInCatalog returns the catalog that plan uses for the pools without a controller's catalog.
func builtInCatalog(documents []scenario.Document, notes *terminal) (*engine.CatalogDocument, error) {
	reading, err := scenario.Read(scenario.Input{Documents: documents, Now: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	notes.notes(reading.Notes)
	return &engine.CatalogDocument{
		APIVersion: engine.CatalogAPIVersion, Kind: engine.CatalogKind, Time: reading.Snapshot.Now,
		Classes: reading.Snapshot.ListedClasses(),
	}, nil
}

// served drops pools if the controller does not handle their kind of node class, because its plans ignore them too.
func served(documents []scenario.Document, catalog *engine.CatalogDocument, notes *terminal) []scenario.Document {
	return slices.DeleteFunc(documents, func(d scenario.Document) bool {
		if d.Object.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: v1.Group, Kind: "NodePool"}) {
			return false
		}
		ref := classRefOf(d)
		for _, class := range catalog.Classes {
			if class.Ref == ref {
				return false
			}
		}
		notes.line("note: NodePool %s left out: the controller does not serve %s %s", d.Object.GetName(), ref.Kind, ref.Name)
		return true
	})
}

func classRefOf(d scenario.Document) v1.NodeClassReference {
	field := func(name string) string {
		spec, _ := d.Object.Object["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		inner, _ := template["spec"].(map[string]any)
		ref, _ := inner["nodeClassRef"].(map[string]any)
		text, _ := ref[name].(string)
		return text
	}
	return v1.NodeClassReference{Group: field("group"), Kind: field("kind"), Name: field("name")}
}
