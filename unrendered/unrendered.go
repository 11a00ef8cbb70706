// Package unrendered recognises manifests that are not ready for a cluster: Helm templates, and texts with variables for envsubst. Its callers
// decide what to do with them.
package unrendered

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	braces   = regexp.MustCompile(`\{\{-?\s*[^{}]*\}\}`)
	variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-=?+][^}]*)?\}`)
)

// Problem says in one line what a text is and what to do with it first, "" if it is neither; name is the file's.
func Problem(name string, text string) string {
	if found := braces.FindString(text); found != "" {
		return fmt.Sprintf("it is a template, which holds %s: render it first, with helm template CHART > %s", short(found), rendered)
	}
	if found := variable.FindString(text); found != "" {
		return fmt.Sprintf("nobody has filled in its variable %s: do so first, with envsubst < %s > %s", short(found), name, rendered)
	}
	return ""
}

// rendered is what examples call the file that comes out.
const rendered = "rendered.yaml"

// short leaves out most of a long text, and keeps it on one line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > 40 {
		return string(letters[:37]) + "..."
	}
	return text
}
