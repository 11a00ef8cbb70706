package playground

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// binaryVariable names the environment variable with the path of the controlplane binary.
const binaryVariable = "TENON_CONTROLPLANE"

// FindBinary returns the path of the controlplane binary. If $TENON_CONTROLPLANE is set, its value is the path. If not, FindBinary first looks for
// the file controlplane next to the running executable, then for bin/controlplane in the source tree around the working directory.
func FindBinary() (string, error) {
	if path := os.Getenv(binaryVariable); path != "" {
		if err := checkBinary(path); err != nil {
			return "", fmt.Errorf("$%s: %w", binaryVariable, err)
		}
		return path, nil
	}
	var places []string
	if executable, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(executable); err == nil {
			executable = resolved
		}
		places = append(places, filepath.Join(filepath.Dir(executable), "controlplane"))
	}
	if root, found := moduleRoot(); found {
		places = append(places, filepath.Join(root, "bin", "controlplane"))
	}
	for _, place := range places {
		if checkBinary(place) == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("the controlplane binary is missing (looked at %q): run `make controlplane` in the source tree, or set $%s to its path",
		places, binaryVariable)
}

func checkBinary(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the controlplane binary is missing: %w; `make controlplane` builds it", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file; `make controlplane` builds the controlplane binary", path)
	}
	return nil
}

// moduleRoot finds Tenon's source tree above the working directory. Tests run in the folder of their package.
func moduleRoot() (string, bool) {
	module := regexp.MustCompile(`(?m)^module tenon\.sh\s*$`)
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && module.Match(content) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
