// Package awstest gives the tests of a package an AWS to talk to: moto, an independent implementation of AWS's APIs, behind
// a front of our own. The front passes calls on, answers those that moto lacks, counts all of them and fails those that a
// test wants to fail. Every test has an account of its own; they share one moto, which is started when the first test asks
// for it and stopped after the last.
//
//	func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }
//
//	func TestX(t *testing.T) {
//		account := awstest.New(t)
//		client := ec2.NewFromConfig(account.Config())
//
// Where there is no moto and none can be installed, tests fail if CI is set in the environment, and say that they did not
// run otherwise.
package awstest

import (
	"errors"
	"os"
	"sync"
	"testing"
)

// shared is the moto of this test binary. It is a package variable because testing offers no other way from TestMain to the
// tests.
var shared struct {
	mu      sync.Mutex // guards the fields below
	running bool       // between the begin and the end of Run
	started bool
	moto    *moto
	err     error
	// accounts counts them, so that each gets a number of its own.
	accounts int
	// answers holds what moto says to everybody.
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

// Start starts moto if it does not run yet. The error says why there is none, and what to do about it.
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
