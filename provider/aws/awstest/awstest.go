// Package awstest gives the tests of a package a simulated AWS: moto, an independent implementation of AWS's APIs, behind a front of our own.
// The front passes calls on, answers calls that moto lacks, counts all of them and makes calls fail if a test asks for it. Every test has its
// own account. The tests share one moto, which is started by the first test that needs it and stopped after the last.
//
//	func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }
//
//	func TestX(t *testing.T) {
//		account := awstest.New(t)
//		client := ec2.NewFromConfig(account.Config())
//
// Without moto, and without a way to install it, tests fail if CI is set in the environment; otherwise they are skipped with a message.
package awstest

import (
	"errors"
	"os"
	"sync"
	"testing"
)

// shared is the moto of this test binary. It is a package variable because package testing offers no other way to pass it from TestMain to
// the tests.
var shared struct {
	mu      sync.Mutex // guards the fields below
	running bool       // between the beginning and the end of Run
	started bool
	moto    *moto
	err     error
	// accounts is the number of accounts, so that each gets its own number.
	accounts int
	// answers holds moto's answers that are the same for all accounts.
	answers map[string]*answer
}

// Run runs the tests, stops moto if it was started, and returns the exit status. Call it in TestMain.
func Run(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.running, shared.answers = true, map[string]*answer{}
	shared.mu.Unlock()

	status := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = false
	if shared.moto != nil {
		shared.moto.stop()
	}
	return status
}

// Start starts moto if it does not run yet. The error says why it cannot be started, with a remedy.
func Start() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		return errors.New("awstest works only under awstest.Run: call that in TestMain")
	}
	if !shared.started {
		shared.started = true
		shared.moto, shared.err = startMoto()
	}
	return shared.err
}

// start returns the shared moto and the number of a new account.
func start(t testing.TB) (*moto, int) {
	t.Helper()
	err := Start()
	if errors.Is(err, errNoMoto) && os.Getenv("CI") == "" {
		t.Skipf("the tests against AWS's API did not run: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.accounts++
	return shared.moto, shared.accounts
}
