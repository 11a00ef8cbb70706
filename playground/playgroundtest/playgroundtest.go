// Package playgroundtest gives the tests of a package one shared control plane. It is started by the first test that asks for it
// and stopped after the last; each test keeps to its own namespace, pools and nodes.
//
//	func TestMain(m *testing.M) { os.Exit(playgroundtest.Run(m)) }
//
//	func TestX(t *testing.T) {
//		client := kubernetes.NewForConfigOrDie(playgroundtest.Get(t).RESTConfig())
//
// A missing controlplane binary fails the test, because a skipped test proves nothing.
package playgroundtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"tenon.sh/playground"
)

const startPatience = 10 * time.Minute

// shared is the control plane of this test binary. It is a package variable because testing has no other way from TestMain to the tests.
var shared struct {
	mu         sync.Mutex // guards the fields below
	running    bool       // between the begin and the end of Run
	config     playground.Config
	started    bool
	playground *playground.Playground
	err        error
}

// Tests runs the tests of a package. It is usually a *testing.M.
type Tests interface{ Run() (status int) }

// Run runs the tests, stops the control plane if a test has started it, and returns the exit status. Call it in TestMain.
func Run(m Tests) int { return RunWith(m, playground.Config{}) }

// RunWith is Run with a configured control plane, for instance only etcd and the API server.
func RunWith(m Tests, config playground.Config) int {
	shared.mu.Lock()
	shared.running, shared.config = true, config
	shared.mu.Unlock()

	status := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = false
	if shared.playground == nil {
		return status
	}
	select {
	case err := <-shared.playground.Done():
		fmt.Fprintln(os.Stderr, "playgroundtest:", err)
		status = max(status, 1)
	default:
	}
	if err := shared.playground.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "playgroundtest:", err)
		status = max(status, 1)
	}
	return status
}

// Get returns the shared control plane, and starts it if necessary. The test fails immediately if the start fails.
func Get(t testing.TB) *playground.Playground {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		t.Fatal("playgroundtest.Get works only under playgroundtest.Run: call that in TestMain")
	}
	if !shared.started {
		shared.started = true
		ctx, cancel := context.WithTimeout(context.Background(), startPatience)
		defer cancel()
		shared.playground, shared.err = playground.Start(ctx, shared.config)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.playground
}
