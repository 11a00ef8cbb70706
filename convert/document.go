package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tenon.sh/unrendered"
)

// A document is one YAML document of a file.
type document struct {
	file      string
	separator string // the line before the document, with its line break; empty for the first
	text      string
	from      int // the line of the file on which text begins, counted from 0
	root      *yaml.Node
	list      *yaml.Node // the items, if the document is a List
	objects   []*object
	changed   bool   // root is written instead of text
	edits     []edit // of text, unless changed is true
}

// An edit replaces one word on one line.
type edit struct {
	line, column int // of the file and of the line, counted from 1
	from, to     string
}

// readDocuments divides a file into documents.
func readDocuments(file File) ([]*document, error) {
	var out []*document
	d := &document{file: file.Name}
	line := 0
	for text := range strings.Lines(file.Text) {
		if isSeparator(text) {
			out = append(out, d)
			d = &document{file: file.Name, separator: text, from: line + 1}
		} else {
			d.text += text
		}
		line++
	}
	out = append(out, d)
	for _, d := range out {
		if err := d.read(); err != nil {
			return nil, fmt.Errorf("read %s: %w", file.Name, err)
		}
	}
	return out, nil
}

// isSeparator reports whether a line begins or ends a document. Only a comment may follow on the same line.
func isSeparator(line string) bool {
	line = strings.TrimRight(line, " \t\r\n")
	rest, found := strings.CutPrefix(line, "---")
	if !found {
		rest, found = strings.CutPrefix(line, "...")
	}
	rest = strings.TrimLeft(rest, " \t")
	return found && (rest == "" || strings.HasPrefix(rest, "#"))
}

// read finds the objects of the document.
func (d *document) read() error {
	var root yaml.Node
	// Empty lines before the text make the library count lines from the beginning of the file.
	if err := readOnly([]byte(strings.Repeat("\n", d.from)+d.text), &root); err != nil {
		problem := strings.Join(strings.Fields(err.Error()), " ")
		if unready := unrendered.Problem(d.file, d.text); unready != "" {
			problem += "; " + unready
		}
		return errors.New(problem)
	}
	if line := keyThatIsNoText(&root); line > 0 { // {{ .Values.name }} is YAML: a mapping with a mapping for a key
		return fmt.Errorf("line %d: a key is a mapping; %s", line, cmp.Or(unrendered.Problem(d.file, d.text), "Kubernetes knows no such keys"))
	}
	if name := containsItself(&root, map[*yaml.Node]bool{}); name != "" {
		return fmt.Errorf("line %d: the value of anchor &%s contains itself", d.from+1, name)
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil // a comment, or a text that is no Kubernetes object
	}
	d.root = &root
	top := &object{document: d, node: root.Content[0]}
	if items := field(top.node, "items"); items != nil && items.Kind == yaml.SequenceNode && strings.HasSuffix(top.kind(), "List") {
		for _, item := range items.Content {
			if item.Kind == yaml.MappingNode {
				d.objects = append(d.objects, &object{document: d, node: item})
			}
		}
		d.list = items
		if len(d.objects) > 0 && top.kind() != "List" {
			// The list may later contain objects of several kinds.
			top.setKind("v1", "List")
		}
		if len(d.objects) > 0 {
			return nil
		}
	}
	d.objects = []*object{top}
	return nil
}

// readOnly reads the only document of a text. A second document is an error, because it would be lost on writing. A key with less indentation
// than the first key begins a second document, for example.
func readOnly(text []byte, root *yaml.Node) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("line %d: a second document begins here: write --- on a line of its own before it", next.Line)
}

// keyThatIsNoText returns the line of a key that is a mapping or a list. It returns 0 if there is none.
func keyThatIsNoText(n *yaml.Node) int {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (child.Kind == yaml.MappingNode || child.Kind == yaml.SequenceNode) {
			return child.Line
		}
		if line := keyThatIsNoText(child); line > 0 {
			return line
		}
	}
	return 0
}

// containsItself returns the name of an anchor whose value contains an alias of the anchor. It returns "" if there is none. within holds the nodes
// on the path from the root.
func containsItself(n *yaml.Node, within map[*yaml.Node]bool) string {
	if n.Kind == yaml.AliasNode {
		if within[n.Alias] {
			return n.Value
		}
		return ""
	}
	within[n] = true
	defer delete(within, n)
	for _, child := range n.Content {
		if name := containsItself(child, within); name != "" {
			return name
		}
	}
	return ""
}

// writeDocuments returns the text of a file.
func writeDocuments(documents []*document) (string, error) {
	var out strings.Builder
	for _, d := range documents {
		text, err := d.write()
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(text) == "" && d.changed {
			continue // all objects of the document were dropped
		}
		separator := d.separator
		if separator == "" && out.Len() > 0 {
			separator = "---\n"
		}
		out.WriteString(separator + text)
	}
	return out.String(), nil
}

func (d *document) write() (string, error) {
	if !d.changed {
		return d.edited(), nil
	}
	if d.list != nil {
		d.list.Content = nil
		for _, o := range d.objects {
			if !o.dropped {
				d.list.Content = append(d.list.Content, o.node)
			}
			d.list.Content = append(d.list.Content, o.added...)
		}
		return d.encode(d.root)
	}
	var texts []string
	for _, o := range d.objects {
		nodes := o.added
		if !o.dropped {
			nodes = append([]*yaml.Node{d.root}, nodes...)
		}
		for _, node := range nodes {
			text, err := d.encode(node)
			if err != nil {
				return "", err
			}
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "---\n"), nil
}

// compactList matches a list that is not indented under its key.
var compactList = regexp.MustCompile(`(?m)^( *)[^\s#-][^\n]*:[ \t]*\n(?:[ \t]*#[^\n]*\n)*( *)- `)

// encode returns YAML in the style of the document: lists are indented, or not, as in the original.
func (d *document) encode(node *yaml.Node) (string, error) {
	if strings.HasPrefix(strings.TrimSpace(d.text), "{") {
		return encodeJSON(node)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if match := compactList.FindStringSubmatch(d.text); match != nil && len(match[1]) == len(match[2]) {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(node); err != nil {
		return "", err
	}
	return out.String(), encoder.Close()
}

func encodeJSON(node *yaml.Node) (string, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(value, "", "  ")
	return string(text) + "\n", err
}

// edited returns the text with the edited words; the rest stays as it was.
func (d *document) edited() string {
	if len(d.edits) == 0 {
		return d.text
	}
	lines := slices.Collect(strings.Lines(d.text))
	// Edits are applied from right to left, so that columns stay valid.
	slices.SortFunc(d.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(b.column, a.column))
	})
	for _, e := range d.edits {
		i := e.line - 1 - d.from
		runes := []rune(lines[i])
		at := min(e.column-1, len(runes))
		lines[i] = string(runes[:at]) + strings.Replace(string(runes[at:]), e.from, e.to, 1)
	}
	return strings.Join(lines, "")
}
