package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodepool"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	planOptions
	namespace string
}

func newExplain() *cobra.Command {
	o := explainOptions{}
	command := &cobra.Command{
		Use:   "explain pod|node|nodepool NAME",
		Short: "Say why a pod waits or where it goes, why a node stays or goes, and what a pool can do",
		Long: `Explains one object of a live cluster, or of a file with -f, which holds what tenon plan -f takes or a scenario (*.txt):

  pod       where the plan puts it, on which machine and why that one, or what each pool lacks for it
  node      what it is and costs, what runs there, and why it stays or would be removed
  nodepool  whether it can be used, what it can buy now, what its budgets allow, and which pods it refuses

Nothing is changed. The words are those of the events that the controller writes; -o json is the record behind them.`,
		Example: `  tenon explain pod web-1 -n shop
  tenon explain node ip-10-0-3-7 -o json
  tenon explain nodepool general -f snapshot.yaml`,
		Args: explainArgs,
		RunE: func(command *cobra.Command, args []string) error {
			kind, name := explained(args)
			return o.run(command, kind, name)
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addCatalogFlags(flags)
	flags.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the pod")
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	return command
}

const (
	kindPod  = "pod"
	kindNode = "node"
	kindPool = "nodepool"
)

// explained reads what is to be explained: "pod web" or "pod/web".
func explained(args []string) (kind, name string) {
	if len(args) == 1 {
		kind, name, _ = strings.Cut(args[0], "/")
	} else {
		kind, name = args[0], args[1]
	}
	switch strings.ToLower(kind) {
	case "pod", "pods", "po":
		return kindPod, name
	case "node", "nodes", "no", "nodeclaim", "nodeclaims":
		return kindNode, name
	case "nodepool", "nodepools", "pool", "np":
		return kindPool, name
	}
	return "", name
}

func explainArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("say what to explain: tenon explain pod NAME, node NAME or nodepool NAME")
	}
	kind, name := explained(args)
	if kind == "" {
		return fmt.Errorf("%s cannot be explained: it is pod, node or nodepool", args[0])
	}
	if name == "" {
		return fmt.Errorf("the name is missing: tenon explain %s NAME", kind)
	}
	return nil
}

func (o *explainOptions) run(command *cobra.Command, kind, name string) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output %s: it is text or json", o.output)
	}
	notes := newTerminal(command.ErrOrStderr())
	reading, err := o.readAny(command.Context(), command.InOrStdin(), notes)
	if err != nil {
		return err
	}
	notes.notes(reading.Notes)
	out := command.OutOrStdout()
	switch kind {
	case kindPod:
		return o.pod(out, reading, name)
	case kindNode:
		return o.node(out, reading, name)
	}
	return o.pool(out, reading, name)
}

// readAny reads what plan reads, or a scenario.
func (o *planOptions) readAny(ctx context.Context, stdin io.Reader, notes *terminal) (*scenario.Reading, error) {
	if len(o.files) != 1 || filepath.Ext(o.files[0]) != ".txt" {
		return o.read(ctx, stdin, notes)
	}
	text, err := os.ReadFile(o.files[0])
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	file, err := scenario.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.files[0], err)
	}
	return &scenario.Reading{Snapshot: file.Snapshot, Options: file.Options}, nil
}

func (o *explainOptions) pod(out io.Writer, reading *scenario.Reading, name string) error {
	s := reading.Snapshot
	namespace := o.namespace
	if ns, rest, ok := strings.Cut(name, "/"); ok {
		namespace, name = ns, rest
	}
	i := slices.IndexFunc(s.Pods, func(p *corev1.Pod) bool { return p.Namespace == namespace && p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range s.Pods {
			if p.Name == name {
				return fmt.Errorf("there is no pod %s in namespace %s, but one in namespace %s: add -n %s", name, namespace, p.Namespace, p.Namespace)
			}
			if p.Namespace == namespace {
				names = append(names, p.Name)
			}
		}
		return notFound("pod", name, " in namespace "+namespace, names)
	}
	plan := provisioning.Plan(s, reading.Options, nil)
	story := explain.ExplainPod(s, reading.Options, plan, s.Pods[i])
	if o.output == "json" {
		return writeRecord(out, "PodExplanation", story)
	}
	writePodStory(newTerminal(out), &story)
	return nil
}

func (o *explainOptions) node(out io.Writer, reading *scenario.Reading, name string) error {
	s := reading.Snapshot
	plan := provisioning.Plan(s, reading.Options, nil)
	story, ok := explain.ExplainNode(s, plan, disruption.Plan(s, reading.Options, nil), name)
	if !ok {
		return notFound("node", name, "", append(namesOf(s.Nodes), namesOf(s.NodeClaims)...))
	}
	if o.output == "json" {
		return writeRecord(out, "NodeExplanation", story)
	}
	writeNodeStory(newTerminal(out), name, &story)
	return nil
}

func (o *explainOptions) pool(out io.Writer, reading *scenario.Reading, name string) error {
	s := reading.Snapshot
	i := slices.IndexFunc(s.NodePools, func(p *v1.NodePool) bool { return p.Name == name })
	if i < 0 {
		return notFound("nodepool", name, "", namesOf(s.NodePools))
	}
	story := explain.ExplainPool(s, provisioning.Plan(s, reading.Options, nil), s.NodePools[i])
	story.Notes = append(story.Notes, nodepool.Unsupported(s.NodePools[i], false)...)
	if o.output == "json" {
		return writeRecord(out, "NodePoolExplanation", story)
	}
	writePoolStory(newTerminal(out), &story)
	return nil
}

func namesOf[T metav1.Object](list []T) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return names
}

// mostSuggestions is how many names an error offers.
const mostSuggestions = 3

// notFound says that there is no such object, and which ones have a name like it.
func notFound(kind, name, where string, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return fmt.Errorf("there is no %s %s%s: there are none at all", kind, name, where)
	}
	near := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return unlike(name, other) > max(2, len(name)/3) })
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(cmp.Compare(unlike(name, a), unlike(name, b)), cmp.Compare(a, b)) })
	if len(near) == 0 {
		return fmt.Errorf("there is no %s %s%s", kind, name, where)
	}
	return fmt.Errorf("there is no %s %s%s; did you mean %s?", kind, name, where, strings.Join(near[:min(len(near), mostSuggestions)], ", "))
}

// unlike counts the letters to add, take away or change to make one name the other. A name that the other begins or ends
// with is close, however much is missing: people leave out generated parts.
func unlike(a, b string) int {
	if a != "" && (strings.HasPrefix(b, a) || strings.HasSuffix(b, a)) {
		return 1
	}
	return scenario.Edits(a, b)
}

// writeRecord writes what an explanation consists of, for programs: an object of the given kind. Its fields are a contract.
func writeRecord(out io.Writer, kind string, story any) error {
	var fields, flat, text bytes.Buffer
	encoder := json.NewEncoder(&fields)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(story); err != nil {
		return fmt.Errorf("print the record: %w", err)
	}
	fmt.Fprintf(&flat, "{%q:%q,%q:%q,", "apiVersion", engine.CatalogAPIVersion, "kind", kind)
	flat.Write(fields.Bytes()[1:]) // behind the brace that opens it
	if err := json.Indent(&text, flat.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("print the record: %w", err)
	}
	_, err := out.Write(text.Bytes())
	return err
}
