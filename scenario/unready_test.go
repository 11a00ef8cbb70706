package scenario_test

import (
	"strings"
	"testing"

	"tenon.sh/scenario"
)

func TestAManifestThatIsNotReadySaysSoInOneLine(t *testing.T) {
	t.Parallel()
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  template:\n    spec:\n" +
		"      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n      requirements: []\n"
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, command: [sh, -c, 'echo ${HOME} {{ x }}']}]\n"
	for _, test := range []struct {
		name, text, want string
		refused          bool
	}{
		{"a template", "metadata:\n{{- if .Values.on }}\n  a: b\n", "it is a template, which holds {{- if .Values.on }}: render it first, with helm template", true},
		{"a template that is YAML", "apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Values.name }}}\n", "it is a template, which holds {{ .Values.name }}", true},
		{"a template in quotes", pool + "  weight: '{{ .Values.weight }}'\n", "NodePool p: it is a template, which holds {{ .Values.weight }}", true},
		{"a variable in a number's place", pool + "  weight: ${WEIGHT}\n", "NodePool p: nobody has filled in its variable ${WEIGHT}: do so first, with envsubst < x.yaml", true},
		{"a variable in a quantity's place", pool + "  limits: {cpu: \"${CPU}\"}\n", "NodePool p: nobody has filled in its variable ${CPU}", true},
		{"a variable within braces", "kind: Pod\nmetadata: {name: ${NAME}}\n", "nobody has filled in its variable ${NAME}", true},
		{"a variable that nothing depends on", ec2ClassOf("al2023@latest", "  tags: {cluster: \"${CLUSTER}\"}\n"), "x.yaml: nobody has filled in its variable ${CLUSTER}", false},
		{"a program", pool + pod, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			documents, err := scenario.Documents(scenario.Source{Name: "x.yaml", Data: []byte(test.text)})
			var r *scenario.Reading
			if err == nil {
				r, err = scenario.Read(scenario.Input{Documents: documents})
			}
			said := ""
			switch {
			case (err != nil) != test.refused:
				t.Fatalf("refused: %v", err)
			case err != nil:
				said = err.Error()
			default:
				said = strings.Join(r.Notes, "; ")
			}
			if !strings.Contains(said, test.want) || strings.Contains(said, "\n") || test.want == "" && strings.Contains(said, "first, with") {
				t.Errorf("said: %s\nwant: %s", said, test.want)
			}
		})
	}
}

// The note about the file's templates comes before notes about their consequences.
func TestAFileThatIsNotReadyIsNamedFirst(t *testing.T) {
	t.Parallel()
	for range 5 {
		documents, err := scenario.Documents(scenario.Source{Name: "x.yaml", Data: []byte(ec2ClassOf("al2023@latest", "  tags: {b: \"${B}\", a: \"{{ .Values.a }}\"}\n") +
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: lost, containers: [{name: c, image: \"${IMAGE}\"}]}\n")})
		if err != nil {
			t.Fatal(err)
		}
		r, err := scenario.Read(scenario.Input{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Notes[0], "x.yaml: it is a template, which holds {{ .Values.a }}") || strings.Contains(strings.Join(r.Notes[1:], ""), "x.yaml") {
			t.Errorf("notes: %q", r.Notes)
		}
	}
}
