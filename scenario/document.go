package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"tenon.sh/unrendered"
)

// Source is a file of Kubernetes objects, as YAML or JSON, with one or more documents.
type Source struct {
	// Name is the file's name for messages.
	Name string
	Data []byte
}

// Document is one Kubernetes object and its place in a file.
type Document struct {
	// Where names file, document and line, for messages. It is empty for objects from an API server.
	Where  string
	Object *unstructured.Unstructured
}

// Documents reads the objects of a file. It returns the items of Lists as single documents. Errors name file, document and line.
func Documents(source Source) ([]Document, error) { return readDocuments(source) }

func readDocuments(source Source) ([]Document, error) {
	if trimmed := bytes.TrimSpace(source.Data); len(trimmed) > 0 && trimmed[0] == '{' {
		// A text that begins with a brace may still be YAML.
		if docs, err := readJSON(source); err == nil {
			return docs, nil
		}
	}
	var out []Document
	number := 0
	for _, c := range splitYAML(source.Data) {
		if c.empty() {
			continue
		}
		number++
		where := fmt.Sprintf("%s, document %d, line %d", source.Name, number, c.line)
		var content any
		if err := yaml.UnmarshalStrict(c.text, &content); err != nil { // strict about duplicate keys
			problem := yamlProblem(err, c.line)
			if unready := unrendered.Problem(source.Name, string(c.text)); unready != "" {
				problem += "; " + unready
			}
			return nil, fmt.Errorf("%s, document %d, %s", source.Name, number, problem)
		}
		if content == nil {
			continue
		}
		if line := c.outdented(); line > 0 { // the YAML reader silently stops there
			return nil, fmt.Errorf("%s, document %d, line %d: it is indented less than the document begins", source.Name, number, line)
		}
		object, ok := content.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: this is no Kubernetes object: it is %s", where, form(content))
		}
		docs, err := flatten(where, object)
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
	return out, nil
}

// form describes a value that is not an object.
func form(content any) string {
	switch content.(type) {
	case []any:
		return "a list, which needs kind: List around it"
	case string:
		return "plain text"
	}
	return "a single value"
}

// chunk is the text of one YAML document and the number of its first line.
type chunk struct {
	line int
	text []byte
}

// empty reports whether the text has only comments and blank lines.
func (c chunk) empty() bool {
	for line := range bytes.Lines(c.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// outdented returns the first line that is indented less than the first one. It returns 0 if there is none.
func (c chunk) outdented() int {
	first, number := -1, c.line-1
	for line := range bytes.Lines(c.text) {
		number++
		text := bytes.TrimLeft(line, " ")
		if rest := bytes.TrimSpace(text); len(rest) == 0 || rest[0] == '#' {
			continue
		}
		switch indent := len(line) - len(text); {
		case first < 0 && (indent == 0 || text[0] == '{'):
			return 0
		case first < 0:
			first = indent
		case indent < first:
			return number
		}
	}
	return 0
}

// splitYAML splits at lines that begin with ---, or with ... which ends a document. Text after --- belongs to the next document.
func splitYAML(data []byte) []chunk {
	chunks := []chunk{{line: 1}}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if len(line) > 2 && (string(line[:3]) == "---" || string(line[:3]) == "...") {
			rest := bytes.TrimSpace(line[3:])
			if len(rest) == 0 || rest[0] == '#' {
				chunks = append(chunks, chunk{line: number + 1})
				continue
			}
			if line[3] == ' ' {
				chunks = append(chunks, chunk{line: number, text: append([]byte("   "), line[3:]...)})
				continue
			}
		}
		last := &chunks[len(chunks)-1]
		last.text = append(last.text, line...)
	}
	return chunks
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlProblem returns the reader's message with the line number in the file instead of the document.
func yamlProblem(err error, first int) string {
	text := strings.ReplaceAll(err.Error(), "error converting YAML to JSON: ", "")
	text = strings.TrimPrefix(text, "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	text = strings.ReplaceAll(text, "\n", " ")
	found := yamlLine.FindStringSubmatch(text)
	if found == nil {
		return fmt.Sprintf("line %d: %s", first, text)
	}
	n, _ := strconv.Atoi(found[1])
	return strings.Replace(text, found[0], fmt.Sprintf("line %d", first+n-1), 1)
}

// readJSON reads JSON values, one after another.
func readJSON(source Source) ([]Document, error) {
	var out []Document
	decoder := json.NewDecoder(bytes.NewReader(source.Data))
	for number := 1; ; number++ {
		start := decoder.InputOffset()
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		line := 1 + bytes.Count(source.Data[:start], []byte("\n"))
		if err != nil {
			return nil, fmt.Errorf("%s, document %d, line %d: %w", source.Name, number, line, err)
		}
		docs, err := flatten(fmt.Sprintf("%s, document %d, line %d", source.Name, number, line), content)
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
}

// flatten returns the items of Lists as single documents.
func flatten(where string, content map[string]any) ([]Document, error) {
	u := &unstructured.Unstructured{Object: content}
	items, isList := content["items"].([]any)
	if content["items"] != nil && !isList && u.GetKind() == "List" {
		return nil, fmt.Errorf("%s: items is no list", where)
	}
	if !isList {
		if u.GetKind() == "" || u.GetAPIVersion() == "" {
			return nil, fmt.Errorf("%s: this is no Kubernetes object: apiVersion or kind is missing", where)
		}
		return []Document{{Where: where, Object: u}}, nil
	}
	var out []Document
	for i, item := range items {
		at := fmt.Sprintf("%s, item %d", where, i+1)
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: this is no Kubernetes object", at)
		}
		// kubectl omits the kind from the items of typed lists.
		if kind, ok := strings.CutSuffix(u.GetKind(), "List"); ok && kind != "" && object["kind"] == nil {
			object["kind"], object["apiVersion"] = kind, u.GetAPIVersion()
		}
		docs, err := flatten(at, object)
		if err != nil {
			return nil, err
		}
		out = append(out, docs...)
	}
	return out, nil
}
