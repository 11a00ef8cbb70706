package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// asKeeper makes this test binary the keeper of a program: it names the program.
const asKeeper = "TENON_CLUSTERAPI_KEEPS"

// keep runs the program with this process's arguments and kills it when standard input ends. That happens when the tests want
// it, and also if they end in any other way: the kernel closes the pipe. It returns the program's status.
func keep(program string) int {
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

// controller is one of Cluster API's programs, which can be killed and started again.
type controller struct {
	name    string // that of its file in bin/clusterapi
	program string
	args    []string
	env     []string
	health  string // where it says that it is ready
	log     string

	leash io.Closer     // closed to kill it
	ended chan struct{} // closed when the process has ended
}

// start starts the process and returns when its webhooks answer.
func (c *controller) start(ctx context.Context) error {
	file, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the process has it now
	keeper := exec.Command(os.Args[0], c.args...)
	keeper.Env = append(append(os.Environ(), asKeeper+"="+c.program), c.env...)
	keeper.Stdout, keeper.Stderr = file, file
	leash, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return errors.Join(err, leash.Close())
	}
	ended := make(chan struct{})
	c.leash, c.ended = leash, ended
	go func() {
		_ = keeper.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errors.New("it ended"))
		case <-ctx.Done():
		}
	}()
	err = eventually(ctx, func() (bool, string) {
		response, err := http.Get(c.health)
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
	if err != nil {
		c.kill()
		return fmt.Errorf("start %s: %w (%v); the end of its log:\n%s", c.name, err, context.Cause(ctx), c.tail())
	}
	return nil
}

// kill ends the process as kill -9 does, and returns when it has ended.
func (c *controller) kill() {
	if c.leash == nil {
		return
	}
	_ = c.leash.Close()
	<-c.ended
	c.leash = nil
}

func (c *controller) tail() string {
	text, _ := os.ReadFile(c.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// programsFolder is where make puts Cluster API's programs.
const programsFolder = "../../bin/clusterapi"

// findProgram is the path of one of them.
func findProgram(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(programsFolder, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("run `make clusterapi` in the source tree: %w", err)
	}
	return path, nil
}
