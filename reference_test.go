package main_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	codeText     = regexp.MustCompile("`([^`]+)`")
	testName     = regexp.MustCompile(`^(?:([a-z/0-9]+): )?(Test\w+)$`)
	filePath     = regexp.MustCompile(`^[a-z][\w/-]*/[\w.-]+\.(?:go|yaml|json|txt)$`)
)

// Readers of the threat model and of the support matrix rely on the tests and files that these pages name.
func TestArchitectureOfTheReferenceNamesTestsAndFilesThatExist(t *testing.T) {
	t.Parallel()
	tests := testsByFolder(t)
	for page, least := range map[string]int{"docs/reference/threat-model.md": 80, "docs/reference/support.md": 40} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for line := range strings.Lines(string(text)) {
			folder := "" // a name without a folder is a test of the folder before it
			for _, code := range codeText.FindAllStringSubmatch(line, -1) {
				if strings.HasSuffix(code[1], ": TestName") {
					continue // the example of the introduction
				}
				if filePath.MatchString(code[1]) {
					if _, err := os.Stat(code[1]); err != nil {
						t.Errorf("%s names the file %s: %v", page, code[1], err)
					}
				}
				name := testName.FindStringSubmatch(code[1])
				if name == nil {
					continue
				}
				if name[1] != "" {
					folder = name[1]
				}
				named++
				if !slices.Contains(tests[folder], name[2]) {
					t.Errorf("%s names the test %s of folder %q, which has no test of this name", page, name[2], folder)
				}
			}
		}
		if named < least {
			t.Errorf("%s names %d tests, want at least %d: is the page read as it is written?", page, named, least)
		}
	}
}

// testsByFolder returns the names of all tests of all modules, by their folder.
func testsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	tree := os.DirFS(".")
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || name == "bin"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		for _, match := range testFunction.FindAllStringSubmatch(string(text), -1) {
			out[path.Dir(name)] = append(out[path.Dir(name)], match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
