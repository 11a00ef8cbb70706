package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// checkVariables finds package variables that change: somewhere a function assigns to one, to an element or a field of it, or
// takes its address. Everybody who reads such a variable depends on who ran before.
func checkVariables(p *sourcePackage, found *violationList) {
	variables := map[string]*ast.ValueSpec{}
	for _, file := range slices.Concat(p.sources, p.tests) {
		for _, declaration := range file.Decls {
			collectVariables(declaration, variables)
		}
	}
	for _, file := range slices.Concat(p.sources, p.tests) {
		if ast.IsGenerated(file) {
			continue
		}
		unresolved := map[*ast.Ident]bool{}
		for _, name := range file.Unresolved {
			unresolved[name] = true
		}
		// An identifier is the package's variable if this file's scopes lead to its declaration, or if no scope of this
		// file knows it and another file of the package declares it.
		isVariable := func(name *ast.Ident) bool {
			spec, ok := variables[name.Name]
			return ok && (unresolved[name] || name.Obj != nil && name.Obj.Decl == spec)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
				checkBody(f.Body, isVariable, found)
			}
		}
	}
}

func collectVariables(declaration ast.Decl, into map[string]*ast.ValueSpec) {
	general, ok := declaration.(*ast.GenDecl)
	if !ok || general.Tok != token.VAR {
		return
	}
	for _, spec := range general.Specs {
		values := spec.(*ast.ValueSpec)
		for _, name := range values.Names {
			into[name.Name] = values
		}
	}
}

func checkBody(body *ast.BlockStmt, isVariable func(*ast.Ident) bool, found *violationList) {
	refuse := func(expression ast.Expr) {
		if name := root(expression); name != nil && isVariable(name) {
			found.add(expression.Pos(), "changes the package variable %s; pass it as an argument or make it a field", name.Name)
		}
	}
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					refuse(left)
				}
			}
		case *ast.IncDecStmt:
			refuse(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				refuse(n.Key)
				refuse(n.Value)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				refuse(n.X)
			}
		}
		return true
	})
}

// root returns the variable that an expression such as a.b[i].c starts from, nil if it starts from something else.
func root(expression ast.Expr) *ast.Ident {
	for {
		switch e := expression.(type) {
		case *ast.Ident:
			return e
		case *ast.SelectorExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		case *ast.StarExpr:
			expression = e.X
		default:
			return nil
		}
	}
}
