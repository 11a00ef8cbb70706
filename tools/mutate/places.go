package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A place is a piece of a source file, with its replacement.
type place struct {
	file         string
	line         int
	begin, end   int // bytes of the file
	old, instead string
}

func (p place) String() string {
	short := func(text string) string {
		text = strings.Join(strings.Fields(text), " ")
		if len(text) > 24 {
			return text[:24] + "…"
		}
		return text
	}
	return fmt.Sprintf("%s:%d %s → %s", strings.TrimPrefix(p.file, "../"), p.line, short(p.old), short(p.instead))
}

// changed returns the file's source with the change.
func (p place) changed() ([]byte, error) {
	source, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s%s%s", source[:p.begin], p.instead, source[p.end:]), nil
}

// placesBelow lists the possible changes in the packages in and below the folder. It leaves out tests and generated files.
func placesBelow(folder string) ([]place, error) {
	var places []place
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		switch {
		case entry.IsDir() && name == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated"):
			return nil
		}
		found, err := placesIn(path)
		places = append(places, found...)
		return err
	})
	return places, err
}

func placesIn(path string) ([]place, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		return nil, err
	}
	var places []place
	put := func(from, to token.Pos, instead string) {
		begin, end := files.Position(from), files.Position(to)
		places = append(places, place{path, begin.Line, begin.Offset, end.Offset, string(source[begin.Offset:end.Offset]), instead})
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GenDecl:
			return node.Tok != token.IMPORT && node.Tok != token.TYPE
		case *ast.BinaryExpr:
			if other, ok := otherOperator[node.Op]; ok {
				put(node.OpPos, node.OpPos+token.Pos(len(node.Op.String())), other.String())
			}
		case *ast.IfStmt:
			put(node.Cond.Pos(), node.Cond.End(), "!("+string(source[files.Position(node.Cond.Pos()).Offset:files.Position(node.Cond.End()).Offset])+")")
		case *ast.BasicLit:
			if value, err := strconv.ParseInt(node.Value, 0, 64); err == nil && node.Kind == token.INT {
				put(node.Pos(), node.End(), strconv.FormatInt(value+1, 10))
			}
		case *ast.Ident:
			if other, ok := map[string]string{"true": "false", "false": "true"}[node.Name]; ok {
				put(node.Pos(), node.End(), other)
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
			put(node.Pos(), node.End(), "")
		case *ast.AssignStmt:
			if node.Tok != token.DEFINE {
				put(node.Pos(), node.End(), "")
			}
		case *ast.BranchStmt:
			if node.Tok == token.CONTINUE || node.Tok == token.BREAK {
				put(node.Pos(), node.End(), "")
			}
		}
		return true
	})
	return places, nil
}

var otherOperator = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.AND: token.OR, token.OR: token.AND,
}
