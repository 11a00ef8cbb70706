package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// Commands that compute, or wait for input, end after a signal in any state.
func TestACommandThatIsBusyEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		status int
		input  []byte
		ends   bool // the input ends, and its processing takes long
	}{
		"Ctrl-C while it reads":     {syscall.SIGINT, 130, comments(1 << 17), false},
		"SIGTERM while it reads":    {syscall.SIGTERM, 143, comments(1 << 17), false},
		"Ctrl-C while it computes":  {syscall.SIGINT, 130, manyPods(50_000), true},
		"SIGTERM while it computes": {syscall.SIGTERM, 143, manyPods(50_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "tenon", "plan", "-f", "-")
			stdin, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			var said bytes.Buffer
			command.Stderr = &said
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			// The input is larger than a pipe's buffer, so once it is written, the command is reading.
			if _, err := io.Copy(stdin, bytes.NewReader(c.input)); err != nil {
				t.Fatal(err)
			}
			if c.ends {
				stdin.Close()
			}
			if err := command.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // the status has the result
			if got := command.ProcessState.ExitCode(); got != c.status || said.Len() > 0 {
				t.Errorf("ended with %s and said %q, want status %d and nothing", command.ProcessState, said.String(), c.status)
			}
		})
	}
}

func comments(size int) []byte {
	return bytes.Repeat([]byte("# nothing yet\n"), size/14)
}

// manyPods returns pods that all differ.
func manyPods(n int) []byte {
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: %dm}}}]}}\n", i, i+1)
	}
	return out.Bytes()
}
