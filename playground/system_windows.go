package playground

import (
	"errors"
	"os"
	"syscall"
)

// supported returns why no playground can run on this operating system.
func supported() error {
	return errors.New("it needs Linux or macOS, because its components inherit a lock and a pipe: use WSL on Windows")
}

func tryLock(*os.File) (busy bool, err error) { return false, supported() }

func ownGroup() *syscall.SysProcAttr { return nil }
