package unrendered_test

import (
	"strings"
	"testing"

	"tenon.sh/unrendered"
)

func TestTemplatesAndVariablesAreToldFromEverythingElse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: {{ .Values.name }}":                      "it is a template, which holds {{ .Values.name }}",
		"{{- if .Values.on }}":                          "it is a template, which holds {{- if .Values.on }}",
		"name: ${CLUSTER_NAME}":                         "nobody has filled in its variable ${CLUSTER_NAME}: do so first, with envsubst < x.yaml",
		"name: ${A:-b}":                                 "nobody has filled in its variable ${A:-b}",
		"a: {{ " + strings.Repeat("long ", 20) + "}}":   "...: render it first",
		"a: {b: {c: d}}":                                "",
		"price: $5 {a: $(POD_NAME), b: $HOME, c: ${1}}": "",
	} {
		if got := unrendered.Problem("x.yaml", text); want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
