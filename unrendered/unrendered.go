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

// Problem describes in one line why the text is not ready for a cluster, and what to do first. It returns "" if the text is ready. name is the
// file's name.
func Problem(name string, text string) string {
	if found := braces.FindString(text); found != "" {
		return fmt.Sprintf("it is a template, which holds %s: render it first, with helm template CHART > %s", short(found), rendered)
	}
	if found := variable.FindString(text); found != "" {
		return fmt.Sprintf("nobody has filled in its variable %s: do so first, with envsubst < %s > %s", short(found), name, rendered)
	}
	return ""
}

// rendered is the name of the rendered file in examples.
const rendered = "rendered.yaml"

// short shortens a long text, and puts it on one line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if letters := []rune(text); len(letters) > 40 {
		return string(letters[:37]) + "..."
	}
	return text
}
