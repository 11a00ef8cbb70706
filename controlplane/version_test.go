package main

import (
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

func TestABinaryThatWasLinkedWithoutItsVersionSaysHowToBuildIt(t *testing.T) {
	t.Parallel()
	modules := []*debug.Module{{Path: "k8s.io/api", Version: "v0.36.0"}, {Path: "k8s.io/kubernetes", Version: "v1.36.0"}}
	if err := compareVersions("v1.36.0", modules); err != nil {
		t.Errorf("refused: %v", err)
	}
	for _, linked := range []string{"v0.0.0-master+$Format:%H$", "v1.35.9", ""} {
		if err := compareVersions(linked, modules); err == nil || !strings.Contains(err.Error(), "make controlplane") {
			t.Errorf("linked as %q: %v", linked, err)
		}
	}
}

func TestTheLinkerIsToldTheVersionOfTheModule(t *testing.T) {
	t.Parallel()
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(version))
	flags, err := exec.Command("./ldflags.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(strings.TrimPrefix(want, "v"), ".", 3)
	for _, flag := range []string{".gitVersion=" + want, ".gitMajor=" + parts[0], ".gitMinor=" + parts[1]} {
		for _, of := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			if !strings.Contains(string(flags), "-X "+of+flag+" ") {
				t.Errorf("no -X %s%s in %s", of, flag, flags)
			}
		}
	}
}

func TestKubeletsHaveTheVersionTheyAreGiven(t *testing.T) {
	t.Parallel()
	text, err := nodeInit("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(text, `Version "v1.2.3"`) != 2 {
		t.Errorf("in\n%s", text)
	}
}
