package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenon.sh/engine"
	"tenon.sh/engine/advice"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/nomination"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario"
)

// planOptions are the flags of plan.
type planOptions struct {
	files         []string
	instanceTypes string
	region        string
	change        string // path of a file of changed objects, "" for none
	disrupt       bool
	advice        bool
	output        string
	engineFlags
	liveOptions
}

func newPlan() *cobra.Command {
	o := planOptions{engineFlags: defaultEngineFlags()}
	command := &cobra.Command{
		Use:   "plan",
		Short: "Say what Tenon would do with a cluster, a snapshot or manifests, without doing it",
		Long: `Prints the machines that Tenon would start, the pods that fit existing nodes, and the pods that it refuses, with the
reasons. Without -f it looks at the live cluster and changes nothing there.

Files hold Kubernetes objects as YAML or JSON: manifests that were never applied, what kubectl prints, or a snapshot of
tenon snapshot; or one file, *.txt, holds a scenario. A Deployment, StatefulSet, ReplicaSet or Job whose pods are not in the files is planned with the pods
that it would have. The catalog is the one named with --instance-types, else the snapshot's, else the one built in for
the kind of node class, or what the MachineDeployments of Cluster API in the files make. The controller's options are those of the snapshot, unless a flag says otherwise.

The exit status is 0 if every pod can be placed, 2 if some cannot, and 1 if the input cannot be read.`,
		Example: `  tenon plan -f pool.yaml -f deployment.yaml
  tenon snapshot > s.yaml; tenon plan -f s.yaml -o json
  tenon plan --disrupt --change pool.yaml
  kubectl get pods,nodes,nodepools,nodeclaims,daemonsets -A -o yaml | tenon plan -f -`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addChangeFlag(flags)
	o.addCatalogFlags(flags)
	flags.BoolVar(&o.disrupt, "disrupt", false, "say as well which nodes would be removed, and why the others stay")
	flags.BoolVar(&o.advice, "advice", false, fmt.Sprintf("say as well why these machines, and what would make them cheaper; takes up to %d times as long", advice.MostTries+2))
	addOutputFlag(flags, &o.output)
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	return command
}

// addCatalogFlags adds the flags that select the machines for sale.
func (o *planOptions) addCatalogFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.instanceTypes, "instance-types", "", "file of instance types to plan with, as JSON")
	flags.StringVar(&o.region, "region", "", "region of EC2 or Azure whose zones the built-in catalog offers; of EC2 beside those that the files name (default: us-east-1 or eastus if they name none)")
}

// noFileArgs refuses arguments, because a user who gives some has left out -f.
func noFileArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: name files with -f %s", command.CommandPath(), strings.Join(args, " -f "))
	}
	return nil
}

// noArgs refuses arguments of commands that take none, not even files.
func noArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, and %q is one (see %[1]s --help)", command.CommandPath(), args[0])
	}
	return nil
}

func (o *planOptions) run(command *cobra.Command) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if err := o.engineFlags.check(); err != nil {
		return err
	}
	notes := newTerminal(command.ErrOrStderr())
	reading, err := o.readAny(command.Context(), command.InOrStdin(), notes)
	if err != nil {
		return err
	}
	notes.notes(reading.Notes)
	o.override(command.Flags(), &reading.Options, &reading.Snapshot)
	reading.Options.Threads = runtime.GOMAXPROCS(0)
	plan := provisioning.Plan(reading.Snapshot, reading.Options, nil)
	var said *advice.Advice
	if o.advice {
		said = advice.New(reading.Snapshot, reading.Options, plan)
	}
	nomination.Foresee(reading.Snapshot, reading.Options, plan)
	if o.disrupt {
		disruption := disruption.Plan(reading.Snapshot, reading.Options, nil)
		plan.Disruptions, plan.Kept = disruption.Disruptions, disruption.Kept
	}
	if err := o.print(command.OutOrStdout(), plan, said); err != nil {
		return err
	}
	if len(plan.Unplaced) > 0 {
		return errUnplaced
	}
	return nil
}

// print writes the plan, and the advice unless it is nil.
func (o *planOptions) print(out io.Writer, plan *engine.Plan, said *advice.Advice) error {
	if o.output == "text" {
		return writePlanText(newTerminal(out), plan, said, o.disrupt)
	}
	document := newPlanDocument(plan)
	document.Advice = said
	if o.output == "json" {
		return document.writeJSON(out)
	}
	return document.writeYAML(out)
}

// read makes a snapshot of the files, or of the live cluster if no file is named.
func (o *planOptions) read(ctx context.Context, stdin io.Reader, notes *terminal) (*scenario.Reading, error) {
	if o.region != "" && !catalog.IsRegion(o.region) && !catalog.IsAzureRegion(o.region) {
		return nil, fmt.Errorf("--region %s: this is no region of EC2, such as eu-west-1, or of Azure, such as westeurope", o.region)
	}
	in := scenario.Input{Now: time.Now().UTC(), Region: o.region}
	var err error
	if o.instanceTypes != "" {
		if in.InstanceTypes, err = readInstanceTypes(o.instanceTypes); err != nil {
			return nil, err
		}
	}
	if len(o.files) == 0 {
		in.Documents, err = o.liveOptions.documents(ctx, notes)
		if errors.Is(err, errNoKubeconfig) {
			err = fmt.Errorf("%w, or name files with -f", err)
		}
	} else {
		in.Documents, err = readFiles(o.files, stdin)
	}
	if err != nil {
		return nil, err
	}
	reading, err := scenario.Read(in)
	if err != nil {
		return nil, err
	}
	var over []string
	reading.Snapshot, over = lifecycle.Refresh(reading.Snapshot)
	reading.Notes = append(reading.Notes, over...)
	for _, n := range kube.OldNames(reading.Snapshot) {
		reading.Notes = append(reading.Notes, n.Who()+": "+n.Sentence())
	}
	return reading, nil
}

func readInstanceTypes(path string) ([]engine.InstanceType, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--instance-types: %w", err)
	}
	defer file.Close()
	return catalog.Read(file, path)
}

// readFiles reads all named files. The name - means standard input.
func readFiles(names []string, stdin io.Reader) ([]scenario.Document, error) {
	var out []scenario.Document
	for _, name := range names {
		paths, err := filesOf(name)
		if err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		for _, path := range paths {
			documents, err := readFile(path, stdin)
			if err != nil {
				return nil, err
			}
			out = append(out, documents...)
		}
	}
	if len(out) == 0 {
		return nil, noObjects(names)
	}
	return out, nil
}

// noObjects returns an error about files without objects.
func noObjects(names []string) error {
	return fmt.Errorf("there are no objects in %s", strings.Join(titles(names), ", "))
}

func readFile(path string, stdin io.Reader) ([]scenario.Document, error) {
	source := scenario.Source{Name: title(path)}
	var err error
	if path == "-" {
		source.Data, err = io.ReadAll(stdin)
	} else {
		source.Data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	documents, err := scenario.Documents(source)
	if err != nil {
		if file, wrong := scenario.Parse(string(source.Data)); wrong == nil && !file.IsEmpty() {
			return nil, fmt.Errorf("%s holds a scenario and no Kubernetes objects: name it alone with -f, as a file that ends in .txt", source.Name)
		}
	}
	return documents, err
}

// title returns a file's name in messages.
func title(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

func titles(paths []string) []string {
	var out []string
	for _, path := range paths {
		out = append(out, title(path))
	}
	return out
}

// filesOf returns the file itself, or the YAML and JSON files in a folder.
func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".yaml", ".yml", ".json":
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}
