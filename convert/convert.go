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

// Options are inputs that manifests do not contain.
type Options struct {
	// Role is the IAM role of nodes for classes that name neither a role nor an instance profile.
	Role string
	// Rules, unless it is nil, returns the reasons for which the API server would refuse an object, each with its field. Each refusal of a
	// converted object becomes a ToDo note.
	Rules func(object map[string]any) []Refusal
	// Unknown, unless it is nil, lists the paths of an object's fields that its kind does not have. Each becomes a ToDo note, because the API
	// server drops the field.
	Unknown func(object map[string]any) []string
}

// A Refusal is a rule that an object breaks.
type Refusal struct {
	Field string // its path, such as spec.role; empty if the rule concerns the whole object
	Text  string // one line that begins with the path
}

// A Result holds the converted files.
type Result struct {
	Files []File // the files in their order
	Notes []Note // sorted by kind; within a kind in the order in which they were found
	// Converted counts the objects of older APIs. Mended counts the objects of today's API that contained older fields or values. Touched counts
	// the other objects in which a name was changed.
	Converted, Mended, Touched int
}

// A NoteKind tells the reader of a note what to do.
type NoteKind int

// The kinds, the most urgent first.
const (
	ToDo    NoteKind = iota // the manifest does not work until its author fills in a value
	Lost                    // the new API has no equivalent
	Changed                 // it is mapped, and behaves differently
	Renamed                 // it has another name and the same meaning
)

// A Note is one line about one object.
type Note struct {
	Kind   NoteKind
	Object string // such as "NodePool default"
	Text   string
}

// Files converts files that belong together, because the kubelet settings of a pool move to its node class, which may be in another file.
// Documents in which nothing changes keep each byte.
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

// conversion is the state of a conversion of files.
type conversion struct {
	options            Options
	objects            []*object
	settings           settings
	pools              []pool
	notes              []Note
	converted, touched int
	mended             int // the number of mended objects of today's API
}

func (c *conversion) note(kind NoteKind, o *object, format string, args ...any) {
	n := Note{Kind: kind, Object: o.String(), Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.notes, n) {
		c.notes = append(c.notes, n)
	}
}

// run converts all objects, each by its kind. Then it handles changes that concern several objects.
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

// askForPool notes the values that a pool needs and that only its author knows.
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

// applyRules notes the reasons for which the API server would refuse the converted object. It does not repeat earlier notes.
func (c *conversion) applyRules(o *object) {
	nodes := o.added
	if !o.dropped {
		nodes = append([]*yaml.Node{o.node}, nodes...)
	}
	for _, node := range nodes {
		var content map[string]any
		if c.options.Rules == nil || node.Decode(&content) != nil {
			continue // a key of the object is not a string
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

// nameUnknown notes the object's fields that its kind does not have. It skips status, because users do not apply it.
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

// emptyList converts a list without items to kind List, because its old kind no longer exists.
func emptyList(o *object) error {
	o.setKind("v1", "List")
	return nil
}

// machine drops a Machine, because it represented a running machine, which no manifest creates.
func (c *conversion) machine(o *object) error {
	c.note(Lost, o, "left out: machines that run are taken over from the cluster, no manifest starts them")
	o.dropped = true
	return nil
}

// An object is one Kubernetes object in a document.
type object struct {
	document *document
	node     *yaml.Node // a mapping
	called   string     // its name in notes, once it is converted
	added    []*yaml.Node
	dropped  bool
	mended   bool
}

func (o *object) apiVersion() string { return scalar(field(o.node, "apiVersion")) }
func (o *object) kind() string       { return scalar(field(o.node, "kind")) }
func (o *object) name() string       { return scalar(field(field(o.node, "metadata"), "name")) }

// String returns the object's original name.
func (o *object) String() string {
	if o.called != "" {
		return o.called
	}
	if o.kind() == "" { // rules of Prometheus, for example
		return o.document.file
	}
	return o.kind() + " " + cmp.Or(o.name(), "without a name")
}

// setKind changes the object's kind. Notes still use its original name.
func (o *object) setKind(apiVersion, kind string) {
	o.called = o.String()
	set(o.node, "apiVersion", word(apiVersion))
	set(o.node, "kind", word(kind))
}
