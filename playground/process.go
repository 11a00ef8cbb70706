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

// stopGrace is how long a component may take to end after SIGTERM.
const stopGrace = 5 * time.Second

// A leash is a pipe of which the components hold the reading end. They exit when it closes: at the latest when the kernel
// takes away the only writing end, this process's.
type leash struct {
	read, write *os.File
}

// leashVariable tells a component which of its file descriptors is the leash. Known to the controlplane binary.
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
	ended   chan struct{} // closed once it has ended; err is set by then
	err     error
}

// An endedError is a component that ended by itself.
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

// startProcess starts a component. Its output goes to a log of its own, which starts anew.
func startProcess(binary, name string, args []string, folder *folder, leash *leash) (*process, error) {
	path := folder.path("logs", name+".log")
	output, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close() // the component has it now

	command := exec.Command(binary, append([]string{name}, args...)...)
	command.Stdout, command.Stderr = output, output
	command.Dir = folder.dir
	command.Env = environment()
	command.ExtraFiles = []*os.File{leash.read, folder.lock} // descriptors 3 and 4
	// A process group of its own: Ctrl-C in a terminal goes to all processes of the group in front, and the components shall
	// not end before, and in another order than, Stop ends them.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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

// environment is nearly empty, because the components read many variables: etcd takes each ETCD_… for a flag.
func environment() []string {
	// Heaps are small and most of what is in them lasts, so collecting them as often as Go would takes a quarter of the time of
	// a busy API server. Whoever starts the playground may decide otherwise: of two values the last counts.
	kept := []string{leashVariable + "=3", "GOGC=400", "GOMEMLIMIT=1GiB"}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"} {
		if value, set := os.LookupEnv(name); set {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// endError returns how the process ended. It must have ended.
func (p *process) endError() error {
	return &endedError{name: p.name, log: p.log, logTail: tail(p.log), err: p.err}
}

// end asks the process to end, waits, and kills it if it takes too long.
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
