// Package convert translates manifests of Karpenter's older APIs (v1alpha5, v1beta1) to karpenter.sh/v1 and karpenter.k8s.aws/v1. It keeps comments,
// and lists the fields that it could not map and the behaviour that will change. It reads and writes text and never uses a cluster.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A File is a text of one or more YAML documents.
type File struct {
	Name string
	Text string
}

// Options say what no manifest says.
type Options struct {
	// Role is the IAM role of nodes for classes that name neither a role nor an instance profile.
	Role string
	// Rules, unless it is nil, says why the API server would refuse an object, and which field is meant. What it says of what
	// is written becomes something to be filled in.
	Rules func(object map[string]any) []Refusal
	// Unknown, unless it is nil, lists the fields of an object that its kind does not have, by path. Each becomes something to be
	// filled in, because the API server drops the field.
	Unknown func(object map[string]any) []string
}

// A Refusal is a rule that an object breaks.
type Refusal struct {
	Field string // its path, such as spec.role; empty if it is about the whole object
	Text  string // in one line, the path at its beginning
}

// A Result is what became of the files.
type Result struct {
	Files []File // those that were read, in their order
	Notes []Note // in order of kind; in each kind as found
	// Converted counts the objects of older APIs, Mended those of today that held something older, Touched the other objects in
	// which a name was changed.
	Converted, Mended, Touched int
}

// A NoteKind says what a note asks of its reader.
type NoteKind int

// The kinds, the most urgent first.
const (
	ToDo    NoteKind = iota // the manifest does not work until somebody fills in what only they know
	Lost                    // there is nothing that it could become
	Changed                 // it is mapped, and behaves otherwise than before
	Renamed                 // it is the same under another name
)

// A Note is one thing to know about one object, in one line.
type Note struct {
	Kind   NoteKind
	Object string // such as "NodePool default"
	Text   string
}

// Files converts files that belong together: what a pool says about its kubelets moves to its node class, which may be in
// another file. Documents in which nothing changes keep every byte.
func Files(files []File, opt Options) (Result, error) {
	c := &conversion{options: opt}
	var documents [][]*document
	for _, file := range files {
		read, err := readDocuments(file)
		if err != nil {
			return Result{}, err
		}
		documents = append(documents, read)
		for _, d := range read {
			c.objects = append(c.objects, d.objects...)
		}
	}
	if err := c.run(); err != nil {
		return Result{}, err
	}
	result := Result{Notes: c.notes, Converted: c.converted, Mended: c.mended, Touched: c.touched}
	slices.SortStableFunc(result.Notes, func(a, b Note) int { return cmp.Compare(a.Kind, b.Kind) })
	for i, file := range files {
		text, err := writeDocuments(documents[i])
		if err != nil {
			return Result{}, fmt.Errorf("write %s: %w", file.Name, err)
		}
		result.Files = append(result.Files, File{Name: file.Name, Text: text})
	}
	return result, nil
}

// conversion is what is known while files are converted.
type conversion struct {
	options            Options
	objects            []*object
	settings           settings
	pools              []pool
	notes              []Note
	converted, touched int
	mended             int // objects of today
}

func (c *conversion) note(kind NoteKind, o *object, format string, args ...any) {
	n := Note{Kind: kind, Object: o.String(), Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}

// run converts all objects, each by its kind, and then what concerns several of them.
func (c *conversion) run() error {
	for _, o := range c.objects {
		if o.kind() == "ConfigMap" && o.name() == globalSettings {
			c.readSettings(o)
		}
	}
	for _, o := range c.objects {
		if err := c.convert(o); err != nil {
			return fmt.Errorf("%s, line %d: %s: %w", o.document.file, o.node.Line, o, err)
		}
	}
	if err := c.moveKubelets(); err != nil {
		return err
	}
	for _, p := range c.pools {
		c.askForPool(p)
	}
	for _, o := range c.objects {
		c.applyRules(o)
	}
	return nil
}

// askForPool names what a pool cannot do without and nobody but its author knows.
func (c *conversion) askForPool(p pool) {
	if scalar(field(p.ref, "name")) == "" {
		c.note(ToDo, p.object, "spec.template.spec.nodeClassRef.name: name the node class")
	}
	for i, budget := range items(field(field(field(p.object.node, "spec"), "disruption"), "budgets")) {
		at := fmt.Sprintf("spec.disruption.budgets[%d]", i)
		switch schedule, duration := scalar(field(budget, "schedule")), scalar(field(budget, "duration")); {
		case schedule != "" && duration == "":
			c.note(ToDo, p.object, "%s.duration: say for how long the budget holds from each time of its schedule %q", at, schedule)
		case schedule == "" && duration != "":
			c.note(ToDo, p.object, "%s.schedule: say when the budget begins to hold for %s, or leave the duration out", at, duration)
		}
	}
}

// applyRules asks why the API server would refuse what the object has become. What was asked for already is not repeated.
func (c *conversion) applyRules(o *object) {
	nodes := o.added
	if !o.dropped {
		nodes = append([]*yaml.Node{o.node}, nodes...)
	}
	for _, node := range nodes {
		var content map[string]any
		if c.options.Rules == nil || node.Decode(&content) != nil {
			continue // a key of the object itself is no text
		}
		c.nameUnknown(o, content)
		for _, r := range c.options.Rules(content) {
			asked := func(n Note) bool {
				return n.Kind == ToDo && n.Object == o.String() && r.Field != "" && strings.HasPrefix(n.Text, r.Field)
			}
			if !slices.ContainsFunc(c.notes, asked) {
				c.note(ToDo, o, "%s", r.Text)
			}
		}
	}
}

// nameUnknown names the fields that the object has and its kind does not. Nobody applies a status.
func (c *conversion) nameUnknown(o *object, content map[string]any) {
	if c.options.Unknown == nil {
		return
	}
	for _, path := range c.options.Unknown(content) {
		if !strings.HasPrefix(path, "status.") {
			c.note(ToDo, o, "%s: the kind has no such field, and the API server would drop it: correct its name, or take it out", path)
		}
	}
}

func (c *conversion) convert(o *object) error {
	turn := map[string]func(*object) error{
		"karpenter.sh/v1alpha5/Provisioner":              c.provisioner,
		"karpenter.sh/v1alpha5/Machine":                  c.machine,
		"karpenter.k8s.aws/v1alpha1/AWSNodeTemplate":     c.nodeTemplate,
		"karpenter.sh/v1beta1/NodePool":                  c.nodePool,
		"karpenter.sh/v1beta1/NodeClaim":                 c.nodeClaim,
		"karpenter.k8s.aws/v1beta1/EC2NodeClass":         c.nodeClass,
		"karpenter.sh/v1/NodePool":                       c.poolOfToday,
		"karpenter.sh/v1/NodeClaim":                      c.claimOfToday,
		awsAPIVersion + "/" + awsKind:                    c.classOfToday,
		"karpenter.sh/v1alpha5/ProvisionerList":          emptyList,
		"karpenter.sh/v1beta1/NodePoolList":              emptyList,
		"karpenter.sh/v1beta1/NodeClaimList":             emptyList,
		"karpenter.k8s.aws/v1beta1/EC2NodeClassList":     emptyList,
		"karpenter.k8s.aws/v1alpha1/AWSNodeTemplateList": emptyList,
	}[o.apiVersion()+"/"+o.kind()]
	if turn == nil {
		c.renameIn(o)
		return nil
	}
	if spec := field(o.node, "spec"); spec != nil && spec.Kind != yaml.MappingNode {
		return errors.New("spec must be a mapping")
	}
	if v := o.apiVersion(); v != apiVersion && v != awsAPIVersion {
		c.converted++
		o.document.changed = true
	}
	return turn(o)
}

// emptyList is a list without items: it needs no conversion but to be a list of nothing in particular.
func emptyList(o *object) error {
	o.setKind("v1", "List")
	return nil
}

// machine leaves a Machine out: it stood for something running, which no manifest creates.
func (c *conversion) machine(o *object) error {
	c.note(Lost, o, "left out: machines that run are taken over from the cluster, no manifest starts them")
	o.dropped = true
	return nil
}

// An object is one Kubernetes object in a document.
type object struct {
	document *document
	node     *yaml.Node // a mapping
	called   string     // what notes call it, once converted
	added    []*yaml.Node
	dropped  bool
	mended   bool
}

func (o *object) apiVersion() string { return scalar(field(o.node, "apiVersion")) }
func (o *object) kind() string       { return scalar(field(o.node, "kind")) }
func (o *object) name() string       { return scalar(field(field(o.node, "metadata"), "name")) }

// String names the object as it was written.
func (o *object) String() string {
	if o.called != "" {
		return o.called
	}
	if o.kind() == "" { // rules of Prometheus, for example
		return o.document.file
	}
	return o.kind() + " " + cmp.Or(o.name(), "without a name")
}

// setKind makes it an object of another kind. Notes go on calling it what its author called it.
func (o *object) setKind(apiVersion, kind string) {
	o.called = o.String()
	set(o.node, "apiVersion", word(apiVersion))
	set(o.node, "kind", word(kind))
}
