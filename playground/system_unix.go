//go:build unix

package playground

import (
	"errors"
	"os"
	"syscall"
)

// supported returns why no playground can run on this operating system.
func supported() error { return nil }

// tryLock locks a file until its last descriptor is closed. It reports whether another process has the lock.
func tryLock(file *os.File) (busy bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR), err
}

// ownGroup gives a component a process group of its own. Ctrl-C in a terminal signals all processes of the foreground group, but only Stop
// may end the components, in its order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
