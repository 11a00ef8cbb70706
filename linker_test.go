package main_test

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchitectureLeavesTheLinkerItsWork: the linker leaves out methods that nobody calls, as long as nothing that is linked finds
// methods by names that are known at run time only. Executing one template of text/template or html/template is enough for that, and
// keeps every exported method of every type in use: twice the program.
func TestArchitectureLeavesTheLinkerItsWork(t *testing.T) {
	t.Parallel()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w -dumpdep", "-o", filepath.Join(t.TempDir(), "tenon"), ".")
	out, err := build.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := build.Start(); err != nil {
		t.Fatal(err)
	}
	edges := 0
	var finders, rest []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch from, to, isEdge := strings.Cut(lines.Text(), " -> "); {
		case !isEdge:
			rest = append(rest, lines.Text())
		case strings.HasSuffix(to, "<ReflectMethod>"):
			finders = append(finders, strings.TrimSuffix(to, " <ReflectMethod>")+", which "+from+" calls")
			fallthrough
		default:
			edges++
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	if err := build.Wait(); err != nil || edges < 1000 {
		t.Fatalf("the linker named %d edges of what it keeps: %v\n%s", edges, err, strings.Join(rest, "\n"))
	}
	if len(finders) > 0 {
		t.Errorf("methods are found by name, so that none can be left out, in %s", strings.Join(finders[:min(len(finders), 5)], "\n"))
	}
}
