package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// parentVariable is the environment variable with the number of an inherited file descriptor: the reading end of a pipe. Only the parent has the
// writing end.
const parentVariable = "TENON_PARENT_FD"

// followParent ends this process when its parent has ended. The kernel closes the pipe even after kill -9, which no signal handler of the parent
// can notice. Without the variable, the process does not depend on its parent.
func followParent() error {
	value, set := os.LookupEnv(parentVariable)
	if !set {
		return nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return fmt.Errorf("%s=%q is not the number of an inherited file descriptor", parentVariable, value)
	}
	pipe := os.NewFile(uintptr(fd), "parent")
	if _, err := pipe.Stat(); err != nil {
		return fmt.Errorf("%s=%d: no such file descriptor was inherited", parentVariable, fd)
	}
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		fmt.Fprintln(os.Stderr, "controlplane: the parent process is gone, exiting")
		os.Exit(1)
	}()
	return nil
}
