package scenario

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// lines finds the lines of a document's fields.
type lines struct {
	first int // of the document
	root  *yaml.Node
}

func newLines(c chunk) *lines {
	l := &lines{first: c.line}
	var document yaml.Node
	if err := yaml.Unmarshal(c.text, &document); err == nil && len(document.Content) > 0 { // otherwise the first line is used
		l.root = document.Content[0]
	}
	return l
}

// step matches one step of a path: a name, or a number or key in brackets.
var step = regexp.MustCompile(`\[([^\]]*)\]|([^.\[\]]+)`)

// of returns the line of a field, with a path as in errors. If the field is missing, it returns the line of the nearest enclosing field.
func (l *lines) of(path string) int {
	if l.root == nil {
		return l.first
	}
	at, line := l.root, l.root.Line
	for _, found := range step.FindAllStringSubmatch(path, -1) {
		name := found[1] + found[2]
		var next *yaml.Node
		switch at.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				if at.Content[i].Value == name {
					next, line = at.Content[i+1], at.Content[i].Line
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(at.Content) {
				next, line = at.Content[i], at.Content[i].Line
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	return l.first + line - 1
}
