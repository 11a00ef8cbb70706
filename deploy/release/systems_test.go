package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Names of package syscall differ from system to system. Compiling everything for a system takes minutes; this test only looks for names
// and fields that the system's syscall does not have.
func TestTheProductUsesOnlyCallsThatAllSystemsHave(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"linux", "darwin", "windows"} {
		context := build.Default
		context.GOOS, context.GOARCH, context.CgoEnabled = system, "amd64", false
		known := declared(t, &context, filepath.Join(runtime.GOROOT(), "src", "syscall"))
		if !known["SIGTERM"] || !known["SysProcAttr"] {
			t.Fatalf("%s: %d names were read", system, len(known))
		}
		used := 0
		err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != "../.." || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".git") {
				return filepath.SkipDir // another module
			}
			for _, f := range parsed(t, &context, file) {
				ast.Inspect(f, func(n ast.Node) bool {
					for _, name := range namesOfSyscall(n) {
						if used++; !known[name] {
							t.Errorf("%s: package %s uses syscall.%s, which that system does not have", system, file, name)
						}
					}
					return true
				})
			}
			return nil
		})
		if err != nil || used < 5 {
			t.Errorf("%s: %d uses were found: %v", system, used, err)
		}
	}
}

// parsed are the files of a folder that are compiled for a system, without tests.
func parsed(t *testing.T, context *build.Context, folder string) (out []*ast.File) {
	t.Helper()
	entries := must(os.ReadDir(folder))(t)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if match := must(context.MatchFile(folder, e.Name()))(t); match {
			out = append(out, must(parser.ParseFile(token.NewFileSet(), filepath.Join(folder, e.Name()), nil, 0))(t))
		}
	}
	return out
}

// declared are the names at the top of a package, and TYPE.FIELD of its structs.
func declared(t *testing.T, context *build.Context, folder string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, f := range parsed(t, context, folder) {
		for _, d := range f.Decls {
			if function, ok := d.(*ast.FuncDecl); ok {
				out[function.Name.Name] = true
				continue
			}
			for _, spec := range d.(*ast.GenDecl).Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						out[n.Name] = true
					}
				case *ast.TypeSpec:
					out[spec.Name.Name] = true
					for _, field := range fieldsOf(spec) {
						out[spec.Name.Name+"."+field] = true
					}
				}
			}
		}
	}
	return out
}

func fieldsOf(spec *ast.TypeSpec) (out []string) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range fields.Fields.List {
		for _, n := range field.Names {
			out = append(out, n.Name)
		}
	}
	return out
}

// namesOfSyscall are the names that a part of a file uses: syscall.Name, and the fields of syscall.Name{Field: …}.
func namesOfSyscall(n ast.Node) (out []string) {
	name := func(e ast.Node) string {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		if of, ok := s.X.(*ast.Ident); !ok || of.Name != "syscall" {
			return ""
		}
		return s.Sel.Name
	}
	if used := name(n); used != "" {
		out = append(out, used)
	}
	if literal, ok := n.(*ast.CompositeLit); ok && literal.Type != nil && name(literal.Type) != "" {
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				out = append(out, name(literal.Type)+"."+pair.Key.(*ast.Ident).Name)
			}
		}
	}
	return out
}
