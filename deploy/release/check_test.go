package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A make of the test's own stands for the builds. It is called with the clone's folder as second argument, and with an empty build cache
// the second time.
func TestTheDoubleBuildCountsTheBytesThatDiffer(t *testing.T) {
	t.Parallel()
	const files = `mkdir -p "$2/bin/release/charts"; cd "$2/bin/release"; printf abcd >same; `
	for script, want := range map[string]string{
		files: "0 bytes differ in 1 files of two releases of commit ",
		files + `case ${GOCACHE:-} in */cache) printf axcyz >same;; esac`:      "3 bytes differ in 1 files",
		files + `case ${GOCACHE:-} in */cache) printf abc >charts/more;; esac`: "3 bytes differ in 2 files",
		`mkdir -p "$2/bin/release"`:                                            "0 bytes differ in 0 files",
	} {
		folder := t.TempDir()
		write1(t, folder, "bin/make", "#!/bin/sh\nset -eu\n"+script+"\n")
		if err := os.Chmod(filepath.Join(folder, "bin/make"), 0o755); err != nil {
			t.Fatal(err)
		}
		tool := must(filepath.Abs("../../tools/release-check.sh"))(t)
		command := exec.Command("sh", "-ec", `git init -q . && git -c user.name=t -c user.email=t commit -q --allow-empty -m first && exec "$0" linux/amd64`, tool)
		command.Dir = filepath.Join(folder, "repository")
		if err := os.Mkdir(command.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		command.Env = append(os.Environ(), "GOCACHE=", "PATH="+filepath.Join(folder, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		if !strings.Contains(string(output), want) || (err == nil) != strings.HasPrefix(want, "0 bytes differ in 1 files") {
			t.Errorf("%s: %v, want %s\n%s", script, err, want, output)
		}
	}
}
