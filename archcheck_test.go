package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A sourceTree is everything under one folder that somebody wrote: Go packages and text. It is read with go/parser alone, which
// takes a fraction of a second and lets the go command's test cache see which files matter.
type sourceTree struct {
	files    *token.FileSet
	packages []*sourcePackage // ordered by folder
	texts    []sourceText     // ordered by path
}

type sourcePackage struct {
	folder  string // relative to the tree, "." for its root
	sources []*ast.File
	tests   []*ast.File
}

type sourceText struct {
	path    string
	content []byte
}

// readTree reads the folder root, leaving out what nobody wrote (bin, hidden folders but .ci), Go files that are test data, and
// the checker's own test data.
func readTree(root string) (*sourceTree, error) {
	tree := &sourceTree{files: token.NewFileSet()}
	byFolder := map[string]*sourcePackage{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(base, ".") && base != "." && base != ".ci"
			if hidden || base == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if name == ".git" || strings.HasPrefix(name, "testdata/architecture") {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if utf8.Valid(content) && !bytes.ContainsRune(content, 0) {
			tree.texts = append(tree.texts, sourceText{name, content})
		}
		if !strings.HasSuffix(base, ".go") || slices.Contains(strings.Split(name, "/"), "testdata") {
			return nil
		}
		return tree.addFile(byFolder, name, content)
	})
	if err != nil {
		return nil, fmt.Errorf("read the source tree %s: %w", root, err)
	}
	slices.SortFunc(tree.packages, func(a, b *sourcePackage) int { return cmp.Compare(a.folder, b.folder) })
	return tree, nil
}

func (t *sourceTree) addFile(byFolder map[string]*sourcePackage, name string, content []byte) error {
	file, err := parser.ParseFile(t.files, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	p := byFolder[path.Dir(name)]
	if p == nil {
		p = &sourcePackage{folder: path.Dir(name)}
		byFolder[p.folder] = p
		t.packages = append(t.packages, p)
	}
	if strings.HasSuffix(name, "_test.go") {
		p.tests = append(p.tests, file)
	} else {
		p.sources = append(p.sources, file)
	}
	return nil
}

// violations lists everything in the tree that breaks a rule, each as "place: what is wrong", in the order of places.
func (t *sourceTree) violations(rules []importRule) []string {
	found := &violationList{files: t.files}
	for _, p := range t.packages {
		checkNames(p, found)
		checkNoInit(p, found)
		if !slices.Contains(testOnly, p.folder) { // a package's tests may share one control plane
			checkVariables(p, found)
		}
		if len(p.sources) == 0 {
			continue
		}
		checkComment(p, found)
		checkImports(p, rules, found)
		t.checkLength(p, found)
	}
	for _, text := range t.texts {
		checkPlaces(text, found)
	}
	slices.Sort(found.lines)
	return slices.Compact(found.lines)
}

type violationList struct {
	files *token.FileSet
	lines []string
}

func (v *violationList) add(at token.Pos, format string, args ...any) {
	position := v.files.Position(at)
	v.addAt(fmt.Sprintf("%s:%d", position.Filename, position.Line), format, args...)
}

func (v *violationList) addAt(place, format string, args ...any) {
	v.lines = append(v.lines, place+": "+fmt.Sprintf(format, args...))
}

func checkImports(p *sourcePackage, rules []importRule, found *violationList) {
	i := slices.IndexFunc(rules, func(r importRule) bool { return matches(r.packages, p.folder) })
	if i < 0 {
		found.addAt(p.folder, "no rule says what this package may import; add one to importRules in arch_test.go")
		return
	}
	rule := rules[i]
	for _, file := range p.sources {
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // not valid Go; the compiler says so
			}
			if reason := rule.refusal(p.folder, imported); reason != "" {
				found.add(spec.Pos(), "%s may not import %s: %s", packageName(p.folder), imported, reason)
			}
		}
		if rule.pure {
			checkCalls(file, found)
		}
	}
}

// refusal says why a package of this rule may not import a path, "" if it may.
func (r importRule) refusal(folder, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, modulePath+"/")
	switch {
	case isOurs && slices.Contains(testOnly, ours) && !slices.Contains(testOnly, folder):
		return "only test files may"
	case isOurs && !slices.ContainsFunc(r.ours, func(pattern string) bool { return matches(pattern, ours) }):
		return "importRules in arch_test.go does not list it"
	case isOurs:
		return ""
	case slices.ContainsFunc(r.never, func(path string) bool { return within(imported, path) }) && !slices.Contains(testOnly, folder):
		return "it would make a decision depend on more than its arguments"
	case imported == "testing" && !slices.Contains(testOnly, folder):
		return "it is not a test"
	case isStandard(imported), slices.Contains(r.also, "*"):
		return ""
	case slices.ContainsFunc(r.also, func(path string) bool { return within(imported, path) }):
		return ""
	case !r.alone && slices.ContainsFunc(openToAll, func(path string) bool { return within(imported, path) }):
		return ""
	}
	return "importRules in arch_test.go does not list it"
}

// matches reports whether a folder falls under a pattern: itself, or anything below if the pattern ends in "/...".
func matches(pattern, folder string) bool {
	if above, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(folder, above)
	}
	return pattern == folder
}

func within(name, above string) bool {
	return name == above || strings.HasPrefix(name, above+"/")
}

// checkLength counts the lines of a package of the engine.
func (t *sourceTree) checkLength(p *sourcePackage, found *violationList) {
	if !within(p.folder, "engine") || slices.Contains(longPackages, p.folder) {
		return
	}
	lines := 0
	for _, file := range p.sources {
		lines += t.files.File(file.Pos()).LineCount()
	}
	if lines > mostLines {
		found.addAt(p.folder, "has %d lines, and %d are the most that a package of the engine may have; make what can be understood alone a package below it", lines, mostLines)
	}
}

// isStandard relies on the go command's own rule: a path whose first element has no dot is the standard library's.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func packageName(folder string) string {
	if folder == "." {
		return "package main"
	}
	return "package " + folder
}

func checkCalls(file *ast.File, found *violationList) {
	names := map[string]string{} // what a package is called in this file → its path
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := selector.X.(*ast.Ident)
		if !ok || of.Obj != nil {
			return true
		}
		if call := names[of.Name] + "." + selector.Sel.Name; slices.Contains(impureCalls, call) {
			found.add(selector.Pos(), "%s: the engine knows no clock and no time zone files; take the value as an argument", call)
		}
		return true
	})
}

func checkComment(p *sourcePackage, found *violationList) {
	name := p.sources[0].Name.Name
	want := "Package " + name + " "
	if name == "main" {
		want = "Command "
	}
	for _, file := range p.sources {
		if strings.HasPrefix(file.Doc.Text(), want) {
			return
		}
	}
	found.addAt(p.folder, "no comment on the package clause starts with %q", strings.TrimSpace(want))
}

func checkNames(p *sourcePackage, found *violationList) {
	for _, file := range slices.Concat(p.sources, p.tests) {
		if slices.Contains(bannedNames, file.Name.Name) {
			found.add(file.Name.Pos(), "%q as the name of a package says nothing", file.Name.Name)
		}
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			for _, spec := range general.Specs {
				name := spec.(*ast.TypeSpec).Name
				if slices.Contains(bannedNames, strings.ToLower(name.Name)) || slices.Contains(bannedEndings, lastWord(name.Name)) {
					found.add(name.Pos(), "%q as the name of a type says nothing", name.Name)
				}
			}
		}
	}
}

// lastWord returns the last word of a camel-case name, in lower case.
func lastWord(name string) string {
	start := strings.LastIndexFunc(name, unicode.IsUpper)
	return strings.ToLower(name[max(start, 0):])
}

func checkNoInit(p *sourcePackage, found *violationList) {
	for _, file := range slices.Concat(p.sources, p.tests) {
		if ast.IsGenerated(file) {
			continue
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				found.add(f.Pos(), "init runs behind the caller's back; do this where it is needed")
			}
		}
	}
}

func checkPlaces(text sourceText, found *violationList) {
	for i, line := range bytes.Split(text.content, []byte("\n")) {
		for _, place := range placesOfOneMachine {
			if bytes.Contains(line, []byte(place)) {
				found.addAt(fmt.Sprintf("%s:%d", text.path, i+1), "mentions %s, a place of one machine", place)
			}
		}
	}
}
