package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// parentVariable names the environment variable that holds the number of an inherited file descriptor: the reading end of a
// pipe whose writing end only the parent has.
const parentVariable = "TENON_PARENT_FD"

// followParent ends this process when its parent is gone. The kernel closes the pipe however the parent ends, kill -9
// included, which no signal handler of the parent could do. Without the variable the process runs on its own.
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
