package playground

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopGrace is the time that a component has to end after SIGTERM.
const stopGrace = 5 * time.Second

// A leash is a pipe. The components hold the reading end and exit when it closes. This process has the only writing end, so the kernel closes
// the pipe at the latest when this process ends.
type leash struct {
	read, write *os.File
}

// leashVariable is the environment variable with the file descriptor of the leash. The controlplane binary knows it.
const leashVariable = "TENON_PARENT_FD"

func newLeash() (*leash, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	return &leash{read: read, write: write}, nil
}

func (l *leash) close() error { return errors.Join(l.write.Close(), l.read.Close()) }

// A process is one running component.
type process struct {
	name    string
	command *exec.Cmd
	log     string
	ended   chan struct{} // closed once the process has ended; err is set before
	err     error
}

// An endedError reports that a component ended by itself.
type endedError struct {
	name    string
	log     string
	logTail string
	err     error
}

func (e *endedError) Error() string {
	how := "with status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("%s ended by itself (%s); the end of its log %s:\n%s", e.name, how, e.log, e.logTail)
}

func (e *endedError) Unwrap() error { return e.err }

// startProcess starts a component. It writes the component's output to a new log.
func startProcess(binary, name string, args []string, folder *folder, leash *leash) (*process, error) {
	path := folder.path("logs", name+".log")
	output, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close() // the component has its own copy

	command := exec.Command(binary, append([]string{name}, args...)...)
	command.Stdout, command.Stderr = output, output
	command.Dir = folder.dir
	command.Env = environment()
	command.ExtraFiles = []*os.File{leash.read, folder.lock} // descriptors 3 and 4
	command.SysProcAttr = ownGroup()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, command: command, log: path, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// environment returns few variables, because the components read many: etcd treats each ETCD_… as a flag.
func environment() []string {
	// Heaps are small and most of their content is long-lived. With Go's default, garbage collection would take a quarter of the time of a
	// busy API server. The user's own variables take precedence, because the last of two values counts.
	kept := []string{leashVariable + "=3", "GOGC=400", "GOMEMLIMIT=1GiB"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"} {
		if value, set := os.LookupEnv(name); set {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// endError returns the process's end as an error. The process must have ended.
func (p *process) endError() error {
	return &endedError{name: p.name, log: p.log, logTail: tail(p.log), err: p.err}
}

// end sends SIGTERM, waits, and kills the process if it takes longer than stopGrace.
func (p *process) end() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// tail returns the last lines of a log.
func tail(path string) string {
	const size, lines = 8 << 10, 15
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		_, _ = file.Seek(-size, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Sprintf("(read %s: %v)", filepath.Base(path), err)
	}
	last := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(last[max(0, len(last)-lines):], "\n")
}
