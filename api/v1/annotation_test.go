package v1_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "tenon.sh/api/v1"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference/annotations.md anew")

// annotationsPage is the path of the reference page of annotations in the module.
const annotationsPage = "docs/reference/annotations.md"

// The page is made from the table, so that the page and the program agree.
func TestTheReferenceOfAnnotationsIsUpToDate(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", filepath.FromSlash(annotationsPage))
	want := annotationsText()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the table in api/v1/annotation.go says: run make generate", annotationsPage)
	}
}

// Each constant for one of Tenon's own annotations has a row in the table, and each row has a meaning.
func TestEveryAnnotationSaysWhatItMeans(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range v1.Annotations() {
		if !strings.HasPrefix(a.Key, "tenon.sh/") || a.On == "" || a.Values == "" || a.Meaning == "" || seen[a.Key] {
			t.Errorf("annotation %q is not described, or twice: %+v", a.Key, a)
		}
		seen[a.Key] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "annotation.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && strings.HasSuffix(c.Names[0].Name, "AnnotationKey") {
			if key, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value); err != nil || !seen[key] {
				t.Errorf("%s = %q has no entry in Annotations (%v)", c.Names[0].Name, key, err)
			}
		}
		return true
	})
}

func annotationsText() string {
	var b strings.Builder
	b.WriteString("# Annotations of Tenon\n\n")
	b.WriteString("<!-- Made from the table in api/v1/annotation.go by make generate; do not edit. -->\n\n")
	b.WriteString("Karpenter's annotations (`karpenter.sh/`) have the same meaning as in Karpenter. If a value cannot be read, Tenon takes the\n")
	b.WriteString("safe choice of the last column, and `tenon explain` says so.\n")
	for _, ours := range []bool{false, true} {
		if ours {
			b.WriteString("\n## Written by Tenon\n\nDo not write or change these.\n")
		} else {
			b.WriteString("\n## Written by people\n")
		}
		b.WriteString("\n| Annotation | On | Values | Meaning | A value that cannot be read |\n|---|---|---|---|---|\n")
		for _, a := range v1.Annotations() {
			if a.Ours == ours {
				unreadable := a.Unreadable
				if unreadable == "" {
					unreadable = "there is none"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", a.Key, a.On, a.Values, a.Meaning, unreadable)
			}
		}
	}
	return b.String()
}
