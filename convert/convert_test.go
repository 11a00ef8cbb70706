package convert_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
	"tenon.sh/convert"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into the archives of testdata")

// Each archive of testdata holds original files (in/) and the results (out/, notes).
func TestManifests(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no archives", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			result, err := convert.Files(inputs(archive), convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := withResult(archive, result)
			if *rewrite {
				if err := os.WriteFile(path, txtar.Format(want), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got := string(txtar.Format(want)); got != string(txtar.Format(archive)) {
				t.Errorf("something else comes out:\n%s", got)
			}
			checkObjects(t, result.Files)
			again, err := convert.Files(result.Files, convert.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if again.Converted != 0 || fmt.Sprint(again.Files) != fmt.Sprint(result.Files) {
				t.Errorf("converting again changes %d objects:\n%s", again.Converted, again.Files)
			}
		})
	}
}

func inputs(archive *txtar.Archive) []convert.File {
	var out []convert.File
	for _, file := range archive.Files {
		if name, found := strings.CutPrefix(file.Name, "in/"); found {
			out = append(out, convert.File{Name: name, Text: string(file.Data)})
		}
	}
	return out
}

// withResult returns the archive with the correct result.
func withResult(archive *txtar.Archive, result convert.Result) *txtar.Archive {
	out := &txtar.Archive{Comment: archive.Comment}
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "in/") {
			out.Files = append(out.Files, file)
		}
	}
	for _, file := range result.Files {
		out.Files = append(out.Files, txtar.File{Name: "out/" + file.Name, Data: []byte(file.Text)})
	}
	var notes strings.Builder
	kinds := map[convert.NoteKind]string{convert.ToDo: "to do", convert.Lost: "lost", convert.Changed: "changed", convert.Renamed: "renamed"}
	for _, note := range result.Notes {
		fmt.Fprintf(&notes, "%s: %s: %s\n", kinds[note.Kind], note.Object, note.Text)
	}
	fmt.Fprintf(&notes, "%d converted, %d touched\n", result.Converted, result.Touched)
	out.Files = append(out.Files, txtar.File{Name: "notes", Data: []byte(notes.String())})
	return out
}

// checkObjects reads pools and claims as the API server would: without unknown fields, and with its rules.
func checkObjects(t *testing.T, files []convert.File) {
	t.Helper()
	for _, file := range files {
		for text := range strings.SplitSeq(file.Text, "\n---") {
			var list struct {
				Kind  string
				Items []yamlObject
			}
			if yaml.Unmarshal([]byte(text), &list) != nil {
				continue
			}
			if list.Kind != "List" {
				checkObject(t, file.Name, []byte(text))
			}
			for _, item := range list.Items {
				checkObject(t, file.Name, item)
			}
		}
	}
}

// yamlObject returns an object as JSON.
type yamlObject []byte

func (o *yamlObject) UnmarshalJSON(text []byte) error {
	*o = append([]byte(nil), text...)
	return nil
}

func checkObject(t *testing.T, name string, text []byte) {
	t.Helper()
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return
	}
	if strings.Contains(kind.APIVersion, "alpha") || strings.Contains(kind.APIVersion, "beta") {
		t.Errorf("%s: an object of %s %s is left", name, kind.APIVersion, kind.Kind)
	}
	if kind.APIVersion != "karpenter.sh/v1" {
		return
	}
	switch kind.Kind {
	case "NodePool":
		var pool v1.NodePool
		if err := yaml.UnmarshalStrict(text, &pool); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if strings.Contains(string(text), "instance-pods") {
			return // a note asks the user to remove it
		}
		if err := pool.RuntimeValidate(); err != nil {
			t.Errorf("%s: NodePool %s: %v", name, pool.Name, err)
		}
	case "NodeClaim":
		var claim v1.NodeClaim
		if err := yaml.UnmarshalStrict(text, &claim); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestWhatCannotBeReadIsNamedInOneLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"no YAML", "a: 1\n---\na: [\n", "read x.yaml: yaml: line 3"},
		{"a template", "a: {{ .Values.a }}\nb: [\n", "render it first"},
		{"a template that is YAML", "a: {{ .Values.a }}\n", "x.yaml: line 1: a key is a mapping; it is a template, which holds {{ .Values.a }}"},
		{"a variable in braces", "a: {b: ${C}}\n", "nobody has filled in its variable ${C}"},
		{"seconds that are none", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {ttlSecondsAfterEmpty: soon}\n",
			`x.yaml, line 1: Provisioner p: spec.ttlSecondsAfterEmpty is "soon": it must be a whole number of seconds`},
		{"negative seconds", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nspec: {ttlSecondsUntilExpired: -1}\n", "Provisioner without a name"},
		{"a value within itself", "a: 1\n---\nkind: &a\n  b: [*a]\n", "line 3: the value of anchor &a contains itself"},
		{"a key that is indented less than the first", " apiVersion: v1\nkind: Pod\n", "did not find expected <document start>"},
		{"a document that begins beside its mark", "a: 1\n--- {b: 2}\n", "line 2: a second document begins here"},
		{"a kept kubelet that is none", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: soon}}\n",
			`v1beta1-kubelet-conversion is "soon": it must hold the fields of a kubelet as JSON`},
		{"a spec that is none", "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nspec: []\n", "spec must be a mapping"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := convert.Files([]convert.File{{Name: "x.yaml", Text: test.text}}, convert.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nis not one line with: %s", err, test.want)
			}
		})
	}
}

func TestTheRoleIsWrittenIntoClassesWithoutIdentity(t *testing.T) {
	t.Parallel()
	text := "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: %s}\nspec: {%s}\n"
	result, err := convert.Files([]convert.File{
		{Name: "a", Text: fmt.Sprintf(text, "a", "role: own")},
		{Name: "b", Text: fmt.Sprintf(text, "b", "instanceProfile: own")},
		{Name: "c", Text: fmt.Sprintf(text, "c", "")},
	}, convert.Options{Role: "given"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if got := strings.Contains(result.Files[i].Text, "role: given"); got != want {
			t.Errorf("%s", result.Files[i].Text)
		}
	}
}

func FuzzNothingThatUsersWritePanics(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range inputs(archive) {
			f.Add(file.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := convert.Files([]convert.File{{Name: "x", Text: text}}, convert.Options{})
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}
