package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// vuln looks for vulnerabilities in one small package, with a database.
func vuln(t *testing.T, database string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "../../tools/vuln.sh", database, "./engine/bitset")
	text, err := command.CombinedOutput()
	return string(text), err
}

func TestVulnerabilitiesAreLookedForInADatabase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write1(t, folder, "index/db.json", `{"modified":"2026-01-01T00:00:00Z"}`)
	write1(t, folder, "index/modules.json", `[]`)
	write1(t, folder, "index/vulns.json", `[]`)
	if output, err := vuln(t, "file://"+filepath.ToSlash(folder)); err != nil || !strings.Contains(output, "No vulnerabilities found.") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestADatabaseThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			return // it is there, but nobody can read it
		}
		http.Error(w, "ill", http.StatusServiceUnavailable)
	}))
	t.Cleanup(ill.Close)
	for database, reason := range map[string]string{"http://127.0.0.1:1": "unrecognized vulndb format", ill.URL: "503 Service Unavailable"} {
		output, err := vuln(t, database)
		if err == nil || !strings.Contains(output, "make vuln: the vulnerability database cannot be read, so nothing was checked: ") ||
			!strings.Contains(output, reason) || !strings.Contains(output, "DB=URL names a mirror") {
			t.Errorf("%v, want %q\n%s", err, reason, output)
		}
	}
}
