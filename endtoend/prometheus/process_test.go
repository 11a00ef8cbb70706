package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// asKeeper makes this test binary the keeper of a program: it names the program.
const asKeeper = "TENON_PROMETHEUS_KEEPS"

// keep runs the program with this process's arguments and kills it when standard input ends. That happens when the tests want
// it, and also if they end in any other way: the kernel closes the pipe. It returns the program's status.
func keep(program string) int {
	_ = os.Unsetenv(asKeeper) // the program may be this test binary again
	child := exec.Command(program, os.Args[1:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = child.Process.Kill()
	}()
	if err := child.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, program, err)
		return 1
	}
	return 0
}

// program is one that can be killed and started again.
type program struct {
	name   string
	path   string
	args   []string
	env    []string
	health string // where it says that it is ready
	log    string

	leash io.Closer     // closed to kill it
	ended chan struct{} // closed when the process has ended
}

// start starts the process and returns when it says that it is ready.
func (p *program) start(ctx context.Context) error {
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the process has it now
	keeper := exec.Command(os.Args[0], p.args...)
	keeper.Env = append(append(os.Environ(), asKeeper+"="+p.path), p.env...)
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
	asks := &http.Client{Timeout: 5 * time.Second}
	for state := ""; ; {
		response, err := asks.Get(p.health)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		state = err.Error()
		select {
		case <-ended:
			return fmt.Errorf("start %s: it ended; the end of its log:\n%s", p.name, p.tail())
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("start %s: %s; the end of its log:\n%s", p.name, state, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// kill ends the process as kill -9 does, and returns when it has ended.
func (p *program) kill() {
	if p.leash == nil {
		return
	}
	_ = p.leash.Close()
	<-p.ended
	p.leash = nil
}

func (p *program) tail() string {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
