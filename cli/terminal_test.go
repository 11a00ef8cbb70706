package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tenon.sh/provider"
)

// hostile is a text that tries to forge output: it clears the screen, forges a line, and reverses text.
const hostile = `evil\u001b[2J\nFORGED\r\u009b31m\u202e\u2028end`

// hostileCluster contains the text in each field that accepts free text.
const hostileCluster = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: k}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: k}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: bound, namespace: default}
spec: {storageClassName: "CLASS%s", accessModes: [ReadWriteOnce]}
---
apiVersion: v1
kind: Pod
metadata: {name: lost, namespace: default, annotations: {karpenter.sh/do-not-disrupt: "%s"}}
spec:
  schedulerName: "%s"
  priorityClassName: "%s"
  nodeSelector: {"example.com/%s": "%s"}
  volumes: [{name: v, persistentVolumeClaim: {claimName: "CLAIM%s"}}, {name: w, persistentVolumeClaim: {claimName: bound}}]
  containers: [{name: c, image: "%s", resources: {requests: {cpu: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: volume, namespace: default}
spec:
  volumes: [{name: v, persistentVolumeClaim: {claimName: "CLAIM%s"}}]
  containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {karpenter.sh/nodepool: p, node.kubernetes.io/instance-type: "TYPE%s", topology.kubernetes.io/zone: "%s", kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
spec: {providerID: "kwok://n"}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}, capacity: {cpu: 4, memory: 8Gi, pods: 10}, conditions: [{type: Ready, status: "True", message: "%s"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: default, annotations: {karpenter.sh/do-not-disrupt: "true"}, ownerReferences: [{apiVersion: "%s", kind: "%s", name: "%s", uid: u, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
status: {phase: Running}
---
apiVersion: "example.com/v1"
kind: "KIND%s"
metadata: {name: "%s"}
`

// checkHarmless fails if a text would control a terminal, or shows a forged line.
func checkHarmless(t *testing.T, what, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsGraphic(r) }) >= 0 {
			t.Errorf("%s: a reader's terminal is told something: %q", what, line)
		}
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("%s: a line is forged: %q", what, line)
		}
	}
}

func TestTextOfUsersIsOnlyShown(t *testing.T) {
	t.Parallel()
	cluster := strings.ReplaceAll(hostileCluster, "%s", hostile)
	files := t.TempDir()
	good, bad := filepath.Join(files, "cluster.yaml"), filepath.Join(files, "bad.yaml")
	must(t, os.WriteFile(good, []byte(cluster), 0o600))
	must(t, os.WriteFile(bad, []byte(cluster+"---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: \""+hostile+"\"}\nspec: {weight: \""+hostile+"\"}\n"), 0o600))
	old := filepath.Join(files, "old.yaml")
	must(t, os.WriteFile(old, []byte("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: \""+hostile+"\"}\nspec: {\""+hostile+"\": \""+hostile+"\"}\n"), 0o600))
	spelled := false
	for _, args := range [][]string{
		{"plan", "--disrupt", "-f", good}, {"plan", "-f", bad}, {"plan", "-f", old}, {"plan", "-f", "a\x1b[2J"},
		{"explain", "pod", "lost", "-f", good}, {"explain", "pod", "volume", "-f", good}, {"explain", "pod", "runs", "-f", good}, {"explain", "pod", "no\x1b[2J", "-f", good},
		{"explain", "node", "n1", "-f", good}, {"explain", "nodepool", "p", "-f", good},
		{"nodes", "-f", good}, {"savings", "-f", good}, {"simulate", "--days", "0.01", "--warm-up", "0s", "-f", good},
		{"convert", "-f", good}, {"convert", "-f", bad}, {"convert", "-f", old},
		{"\x1b[2J"},
	} {
		out, notes, err := run(t, args...)
		var failure bytes.Buffer
		exitStatus(err, &failure)
		if args[0] == "convert" {
			out = "" // files of the user, byte for byte
		}
		text := out + notes + failure.String()
		checkHarmless(t, strings.Join(args[:len(args)-1], " "), text)
		spelled = spelled || strings.Contains(text, `CLAIMevil\x1b[2J\nFORGED\r\u009b31m\u202e\u2028end`)
	}
	if !spelled {
		t.Error("nobody can read what was written")
	}
	var out bytes.Buffer
	text := "a\x1b[2J\nFORGED"
	(&doctorOptions{all: true}).print(newTerminal(&out), []provider.Finding{{Level: provider.Problem, Check: text, Object: text, Says: text, Do: text}})
	list := &nodeTable{Nodes: []nodeRow{{Node: text, NodePool: text, InstanceType: text, State: text, Disruption: text}}}
	screen := &screen{terminal: newTerminal(&out)}
	screen.show(list.lines(screen.terminal), "")
	checkHarmless(t, "doctor, nodes --watch", out.String())
	checkHarmless(t, "nodes --watch in place", strings.NewReplacer("\x1b[1;1H", "", "\x1b[K", "", "\x1b[J", "").Replace(screen.frame([]string{text})))
}

// Only the command sets colours: it prints escape codes in names and messages as visible text.
func TestOnlyTheCommandPaints(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	screen := &terminal{out: &out, colours: true}
	screen.line("%s %s", screen.paint(red, "a\x1b[32mb"), "c\x1b[0m")
	if want := "\x1b[31m" + `a\x1b[32mb` + "\x1b[0m" + ` c\x1b[0m` + "\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

// Other output is for programs, or is about the command itself.
func TestPeopleAreWrittenToInOnePlace(t *testing.T) {
	t.Parallel()
	past := []string{"line", "open", "close", "show", "draw", "end", "Write", // the terminal, its screen and its progress
		"printFiles", "printCRDs"}
	sources, err := filepath.Glob("*.go")
	must(t, err)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		must(t, err)
		for _, d := range file.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || slices.Contains(past, function.Name.Name) {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, _ := name.X.(*ast.Ident)
				if of == nil || of.Name != "fmt" || !strings.HasPrefix(name.Sel.Name, "Fprint") && !strings.HasPrefix(name.Sel.Name, "Print") {
					return true
				}
				if into, ok := call.Args[0].(*ast.UnaryExpr); !ok || into.Op != token.AND { // &b is a text that is written later
					t.Errorf("%s: %s writes past the terminal", source, function.Name.Name)
				}
				return true
			})
		}
	}
}
