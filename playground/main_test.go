package playground_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

// parentVariable makes the test binary start a playground in the folder that it names, and wait to be killed.
const parentVariable = "TENON_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		actAsParent(dir)
	}
	os.Exit(playgroundtest.Run(m))
}

// A parentReport is the output of the parent process when its playground is ready.
type parentReport struct {
	Host string
	PIDs map[string]int
}

func actAsParent(dir string) {
	p, err := playground.Start(context.Background(), playground.Config{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	report := parentReport{Host: p.RESTConfig().Host, PIDs: pids(p)}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		os.Exit(1)
	}
	time.Sleep(5 * time.Minute) // the test kills this process long before
	os.Exit(1)
}

func pids(p *playground.Playground) map[string]int {
	all := map[string]int{}
	for _, name := range []string{playground.Etcd, playground.APIServer, playground.Scheduler, playground.ControllerManager, playground.KWOK} {
		if pid := p.PID(name); pid != 0 {
			all[name] = pid
		}
	}
	return all
}

// start starts a playground for one test, and stops it at the test's end.
func start(t *testing.T, config playground.Config) *playground.Playground {
	t.Helper()
	p, err := playground.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// eventually repeats check until it returns nil.
func eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
