package playgroundtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// keeps is the environment variable with the path of the program that a test binary shall run as its keeper.
const keeps = "TENON_TEST_KEEPS"

// KeepProgram makes this process the keeper of a Program if it was started as one, and then does not return. Call it first in TestMain. The
// keeper runs the program with its own arguments and kills it when its standard input ends. Kill closes this input. If the test binary ends
// in another way, the kernel closes the pipe.
func KeepProgram() {
	path := os.Getenv(keeps)
	if path == "" {
		return
	}
	_ = os.Unsetenv(keeps) // the program may be this test binary
	child := exec.Command(path, os.Args[1:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	err := child.Start()
	if err == nil {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			_ = child.Process.Kill()
		}()
		err = child.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, path, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// FindProgram returns the absolute path of a program that `make target` puts into bin. root is the source tree.
func FindProgram(root, target, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, "bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("run `make %s` in the source tree: %w", target, err)
	}
	return path, nil
}

// A Program is a process beside the tests that can be killed and started again. It ends with the test binary, even if that is killed. The
// test binary's TestMain must call KeepProgram.
type Program struct {
	Name      string
	Path      string
	Args, Env []string // Env is added to the environment of the tests
	Health    string   // URL that answers 200 when the program is ready
	Log       string   // path of the file to which its output is appended

	leash io.Closer     // closing it kills the process
	ended chan struct{} // closed when the process has ended
}

// Start starts the process and returns when it is ready. If it does not become ready, the error contains the end of its log.
func (p *Program) Start(ctx context.Context) error {
	file, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the process has its own copy
	keeper := exec.Command(os.Args[0], p.Args...)
	keeper.Env = append(append(os.Environ(), keeps+"="+p.Path), p.Env...)
	keeper.Stdout, keeper.Stderr = file, file
	leash, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return errors.Join(err, leash.Close())
	}
	ended := make(chan struct{})
	p.leash, p.ended = leash, ended
	go func() {
		_ = keeper.Wait()
		close(ended)
	}()
	if err := p.awaitReady(ctx); err != nil {
		p.Kill()
		return fmt.Errorf("start %s: %w; the end of its log:\n%s", p.Name, err, p.LogEnd())
	}
	return nil
}

func (p *Program) awaitReady(ctx context.Context) error {
	// The certificate is the test's own, and the request contains no secret.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	asks := &http.Client{Timeout: 5 * time.Second, Transport: transport}
	for {
		response, err := asks.Get(p.Health)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		select {
		case <-p.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Kill ends the process like kill -9, and returns after its end.
func (p *Program) Kill() {
	if p.leash == nil {
		return
	}
	_ = p.leash.Close()
	<-p.ended
	p.leash = nil
}

// LogEnd returns the last 15 lines of the program's output.
func (p *Program) LogEnd() string {
	text, _ := os.ReadFile(p.Log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
