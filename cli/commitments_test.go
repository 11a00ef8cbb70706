package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A running controller follows the file. If the file is invalid, the error is reported once, no part of the file counts, and the earlier
// content stays.
func TestTheControllerFollowsTheFileOfCommitments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "commitments.yaml")
	var told []string
	f := &commitmentsFile{path: path, refused: func(err error) { told = append(told, err.Error()) }}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		var out []string
		for _, c := range f.now() {
			out = append(out, c.Name)
		}
		return strings.Join(out, " ")
	}
	expect := func(want string, tells int, about string) {
		t.Helper()
		for range 2 {
			if got := names(); got != want {
				t.Errorf("the file counts as %q, want %q", got, want)
			}
		}
		if len(told) != tells || tells > 0 && !strings.Contains(told[tells-1], about) {
			t.Errorf("told %q, want %d times, about %q", told, tells, about)
		}
	}
	expect("", 1, "no such file")
	write("commitments:\n- {name: plan, amountPerHour: 5}\n- {name: reserved, machines: 2}\n")
	expect("plan reserved", 1, "")
	write("commitments:\n- {name: other, amountPerHour: 5}\n- {name: reserved, machines: -2}\n")
	expect("plan reserved", 2, "commitment reserved: machines is -2")
	write("commitments:\n- {name: other, ammountPerHour: 5}\n")
	expect("plan reserved", 3, "ammountPerHour")
	write("commitments: [\n")
	expect("plan reserved", 4, path)
	write("") // it is being written
	expect("plan reserved", 5, "no list called commitments")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("plan reserved", 6, "the earlier content counts until the file is right")
	write("commitments:\n- {name: other, amountPerHour: 5}\n")
	expect("other", 6, "right")
	write("commitments: []\n")
	expect("", 6, "right")
}
