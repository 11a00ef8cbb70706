package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tenon.sh/cli"
)

// asTenon, in the environment, makes this test binary be tenon.
const asTenon = "TENON_TEST_AS_TENON"

func TestMain(m *testing.M) {
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// What a newcomer sees first has to work: a whole cluster, a machine that comes and goes, and nothing left behind.
func TestDemoMakesItsRoundTripAndLeaves(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	demo := tenon(t, "demo", "--exit", "--dir", dir)
	var out bytes.Buffer
	demo.Stdout, demo.Stderr = &out, &out
	if err := demo.Run(); err != nil {
		t.Fatalf("tenon demo --exit: %v\n%s", err, out.String())
	}
	for _, want := range []string{"pods pending", "launched", "$0.", "why: ", "drained", "gone", "Every stage was reached"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b[") {
		t.Error("there are colours where nobody sees them")
	}
	// Each process of a control plane holds the lock of its folder while it lives.
	lock, err := os.Open(filepath.Join(dir, "playground.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("a process of the control plane is left: %v", err)
	}
}

func TestDemoRefusesAFolderWithOtherFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := tenon(t, "demo", "--exit", "--dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "choose an empty or a new folder") {
		t.Errorf("in a folder with other files: %v\n%s", err, out)
	}
}

// tenon is the command in a process of its own.
func tenon(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	controlplane, err := filepath.Abs("bin/controlplane")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), asTenon+"=1", "TENON_CONTROLPLANE="+controlplane)
	return command
}
