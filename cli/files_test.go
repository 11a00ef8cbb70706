package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// A replaced file keeps its permissions and the links to it, and leaves no other file in its folder.
func TestAFileIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, link := filepath.Join(folder, "pool.yaml"), filepath.Join(folder, "link.yaml")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pool.yaml", link); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, "after", 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	info, statErr := os.Lstat(file)
	if err != nil || statErr != nil || string(text) != "after" || info.Mode() != 0o600 {
		t.Errorf("the file is %q, %v (%v, %v)", text, info.Mode(), err, statErr)
	}
	if to, err := os.Readlink(link); err != nil || to != "pool.yaml" {
		t.Errorf("the link leads to %q (%v)", to, err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 {
		t.Errorf("%d entries in the folder (%v), want 2", len(entries), err)
	}
}
