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
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodepool"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	planOptions
	namespace string
}

func newExplain() *cobra.Command {
	o := explainOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	command := &cobra.Command{
		Use:   "explain pod|node|nodepool|provisioningrequest|podgroup NAME",
		Short: "Say why pods wait or where they go, why a node stays or goes, and what a pool can do",
		Long: `Explains one object of a live cluster, or of a file with -f, which holds what tenon plan -f takes:

  pod       where the plan puts it, on which machine and why that one, or what each pool lacks for it
  node      what it is and costs, what runs there, and why it stays or would be removed
  nodepool  whether it can be used, what it can buy now, what its budgets allow, and which pods it refuses

  provisioningrequest  whether there is room for its pods, on which machines, or what it waits for
  podgroup             how many of its pods start together and how many have a place, or what it waits for

Nothing is changed. The words are those of the events that the controller writes; -o json is the record behind them.`,
		Example: `  tenon explain pod web-1 -n shop
  tenon explain node ip-10-0-3-7 -o json
  tenon explain nodepool general -f snapshot.yaml
  tenon explain podgroup shop/train`,
		Args: explainArgs,
		RunE: func(command *cobra.Command, args []string) error {
			kind, name := explained(args)
			return o.run(command, kind, name)
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addCatalogFlags(flags)
	flags.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the pod, request or group, unless NAME says it: NAMESPACE/NAME")
	addOutputFlag(flags, &o.output)
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	return command
}

const (
	kindPod  = "pod"
	kindNode = "node"
	kindPool = "nodepool"

	kindRequest = "provisioningrequest"
	kindGroup   = "podgroup"
)

// explained parses the object to explain: "pod web" or "pod/web".
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
	case kindRequest, "provisioningrequests", "provreq", "provreqs":
		return kindRequest, name
	case kindGroup, "podgroups":
		return kindGroup, name
	}
	return "", name
}

func explainArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("say what to explain: tenon explain pod NAME, node NAME, nodepool NAME, provisioningrequest NAME or podgroup NAME")
	}
	kind, name := explained(args)
	if kind == "" {
		return fmt.Errorf("%s cannot be explained: it is pod, node, nodepool, provisioningrequest or podgroup", args[0])
	}
	if name == "" {
		return fmt.Errorf("the name is missing: tenon explain %s NAME", kind)
	}
	if kind == kindNode || kind == kindPool {
		return nil
	}
	_, _, err := namespaced(kind, "", name)
	return err
}

func (o *explainOptions) run(command *cobra.Command, kind, name string) error {
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
	e, err := newExplainer(reading.Snapshot, reading.Options).explain(kind, o.namespace, name)
	if err != nil {
		return err
	}
	if o.output != outputText {
		return writeAs(command.OutOrStdout(), o.output, func(out io.Writer) error { return writeRecord(out, e.kind, e.record) })
	}
	e.story.write(newTerminal(command.OutOrStdout()))
	return nil
}

// readAny reads objects or a scenario, and adds the objects of --change if it is given.
func (o *planOptions) readAny(ctx context.Context, stdin io.Reader, notes *terminal) (*scenario.Reading, error) {
	if o.change == "-" && slices.Contains(o.files, "-") {
		return nil, errors.New("--change - cannot be standard input when -f is")
	}
	reading, err := o.readUnchanged(ctx, stdin, notes)
	if err != nil || o.change == "" {
		return reading, err
	}
	return reading, o.apply(reading, stdin)
}

func (o *planOptions) readUnchanged(ctx context.Context, stdin io.Reader, notes *terminal) (*scenario.Reading, error) {
	if !isScenario(o.files) {
		return o.read(ctx, stdin, notes)
	}
	if err := o.checkCatalogFlags(); err != nil {
		return nil, err
	}
	file, err := readScenario(o.files[0])
	if err != nil {
		return nil, err
	}
	return &scenario.Reading{Snapshot: file.Snapshot, Options: file.Options}, nil
}

// checkCatalogFlags refuses the flags that have no effect on a scenario.
func (o *planOptions) checkCatalogFlags() error {
	if o.instanceTypes != "" || o.region != "" {
		return fmt.Errorf("-f %s: a scenario says itself what types and zones there are: leave out --instance-types and --region", o.files[0])
	}
	return nil
}

// isScenario reports whether -f names a scenario: one single file with the extension .txt.
func isScenario(files []string) bool { return len(files) == 1 && filepath.Ext(files[0]) == ".txt" }

// readScenario reads a scenario that is not empty.
func readScenario(path string) (*scenario.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	file, err := scenario.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.IsEmpty() {
		return nil, noObjects([]string{path})
	}
	return file, nil
}

// An explainer explains objects of one snapshot. It computes each plan once, at first use.
type explainer struct {
	snapshot       *engine.Snapshot
	options        engine.Options
	plan, disrupts func() *engine.Plan
}

func newExplainer(s *engine.Snapshot, opt engine.Options) *explainer {
	return &explainer{s, opt,
		sync.OnceValue(func() *engine.Plan { return provisioning.Plan(s, opt, nil) }),
		sync.OnceValue(func() *engine.Plan { return disruption.Plan(s, opt, nil) })}
}

// An explanation explains one object: as a record with a kind for programs, and as a story for people.
type explanation struct {
	kind   string
	record any
	story  objectStory
	pod    *explain.PodExplanation // nil for objects other than pods
}

// explain explains the object with a kind and name. The namespace applies if the name does not contain one.
func (e *explainer) explain(kind, namespace, name string) (explanation, error) {
	switch kind {
	case kindPod:
		return e.explainPod(namespace, name)
	case kindNode:
		return e.explainNode(name)
	case kindRequest:
		o, err := objectOf(e.snapshot.ProvisioningRequests, kindRequest, namespace, name)
		if err != nil {
			return explanation{}, err
		}
		record := explain.ExplainRequest(e.plan(), o)
		return explanation{kind: "ProvisioningRequestExplanation", record: record, story: requestStory(&record)}, nil
	case kindGroup:
		o, err := objectOf(e.snapshot.PodGroups, kindGroup, namespace, name)
		if err != nil {
			return explanation{}, err
		}
		record := explain.ExplainGang(e.snapshot, e.plan(), o)
		return explanation{kind: "PodGroupExplanation", record: record, story: gangStory(&record)}, nil
	}
	return e.explainPool(name)
}

func (e *explainer) explainPod(namespace, name string) (explanation, error) {
	pod, err := objectOf(e.snapshot.Pods, kindPod, namespace, name)
	if err != nil {
		return explanation{}, err
	}
	record := explain.ExplainPod(e.snapshot, e.options, e.plan(), pod)
	return explanation{"PodExplanation", record, podStory(&record), &record}, nil
}

// namespaced parses the name of an object in a namespace: NAME, or NAMESPACE/NAME.
func namespaced(kind, namespace, text string) (ns, name string, err error) {
	ns, name, both := strings.Cut(text, "/")
	switch {
	case !both:
		return namespace, text, nil
	case ns == "" || name == "" || strings.Contains(name, "/"):
		return "", "", fmt.Errorf("%s %s: write NAME or NAMESPACE/NAME, with one slash between the two", kind, text)
	}
	return ns, name, nil
}

// objectOf finds an object by name. The namespace applies if the name does not contain one.
func objectOf[T metav1.Object](list []T, kind, namespace, name string) (found T, err error) {
	if namespace, name, err = namespaced(kind, namespace, name); err != nil {
		return found, err
	}
	var names []string
	elsewhere := ""
	for _, o := range list {
		switch {
		case o.GetNamespace() == namespace && o.GetName() == name:
			return o, nil
		case o.GetNamespace() == namespace:
			names = append(names, o.GetName())
		case o.GetName() == name && elsewhere == "":
			elsewhere = o.GetNamespace()
		}
	}
	if elsewhere != "" {
		return found, fmt.Errorf("there is no %s %s in namespace %s, but one in namespace %s: add -n %s", kind, name, namespace, elsewhere, elsewhere)
	}
	return found, notFound(kind, name, " in namespace "+namespace, names)
}

func (e *explainer) explainNode(name string) (explanation, error) {
	s := e.snapshot
	record, ok := explain.ExplainNode(s, e.plan(), e.disrupts(), name)
	if !ok {
		return explanation{}, notFound("node", name, "", append(namesOf(s.Nodes), namesOf(s.NodeClaims)...))
	}
	return explanation{kind: "NodeExplanation", record: record, story: nodeStory(name, &record)}, nil
}

func (e *explainer) explainPool(name string) (explanation, error) {
	s := e.snapshot
	i := slices.IndexFunc(s.NodePools, func(p *v1.NodePool) bool { return p.Name == name })
	if i < 0 {
		return explanation{}, notFound("nodepool", name, "", namesOf(s.NodePools))
	}
	record := explain.ExplainPool(s, e.plan(), e.disrupts(), s.NodePools[i])
	record.Notes = append(record.Notes, nodepool.Unsupported(s.NodePools[i], kube.ClassOf(s, s.NodePools[i]), false)...)
	return explanation{kind: "NodePoolExplanation", record: record, story: poolStory(&record)}, nil
}

func namesOf[T metav1.Object](list []T) []string {
	var names []string
	for _, o := range list {
		names = append(names, o.GetName())
	}
	return names
}

// mostSuggestions is the number of names that an error suggests at most.
const mostSuggestions = 3

// notFound returns an error about an absent object. The error suggests similar names.
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

// unlike returns the number of letters that must be added, removed or changed to turn one name into the other. If b begins or ends with a, the result
// is 1 whatever is missing, because people leave out generated parts.
func unlike(a, b string) int {
	if a != "" && (strings.HasPrefix(b, a) || strings.HasSuffix(b, a)) {
		return 1
	}
	return scenario.Edits(a, b)
}

// writeRecord writes an explanation for programs: a JSON object with the given kind. Programs rely on its fields.
func writeRecord(out io.Writer, kind string, story any) error {
	var fields, flat, text bytes.Buffer
	encoder := json.NewEncoder(&fields)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(story); err != nil {
		return fmt.Errorf("print the record: %w", err)
	}
	fmt.Fprintf(&flat, "{%q:%q,%q:%q,", "apiVersion", engine.CatalogAPIVersion, "kind", kind)
	flat.Write(fields.Bytes()[1:]) // after the opening brace
	if err := json.Indent(&text, flat.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("print the record: %w", err)
	}
	_, err := out.Write(text.Bytes())
	return err
}
