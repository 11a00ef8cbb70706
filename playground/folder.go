package playground

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	lockName = "playground.lock"

	// lockPatience is the time for which Start waits for a locked folder. The components of a killed playground end within milliseconds. A
	// playground that still runs does not end by waiting.
	lockPatience = 2 * time.Second
)

// A folder is the place of one playground, which holds its lock.
type folder struct {
	dir       string
	temporary bool
	// lock is locked with flock. This lock belongs to the open file and not to the process. Each component inherits it, so the folder stays
	// locked until the last of them has ended, even if the playground's process is killed.
	lock *os.File
}

// openFolder creates the folder if necessary and locks it.
func openFolder(dir string) (*folder, error) {
	temporary := dir == ""
	if temporary {
		made, err := os.MkdirTemp("", "tenon-playground-")
		if err != nil {
			return nil, fmt.Errorf("create a temporary folder: %w", err)
		}
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder %s: %w", dir, err)
	}
	if err := checkContents(dir); err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, temporary: temporary, lock: lock}
	for _, name := range []string{"pki", "logs", "config"} {
		if err := os.MkdirAll(f.path(name), 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("create folder %s: %w", f.path(name), err), f.close())
		}
	}
	return f, nil
}

// checkContents refuses a folder with other files, because a wrong path must not mix the playground's files with them.
func checkContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read folder %s: %w", dir, err)
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder %s has other files and no playground: choose an empty or a new folder", dir)
	}
	return nil
}

func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder %s: %w", dir, err)
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		var busy bool
		if busy, err = tryLock(lock); !busy {
			break
		}
		if time.Now().After(deadline) {
			owner, _ := os.ReadFile(path)
			lock.Close()
			return nil, fmt.Errorf("folder %s is in use by a running playground (started by process %s): stop that one or choose another folder",
				dir, strings.TrimSpace(string(owner)))
		}
	}
	if err == nil {
		err = writeOwner(lock)
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return lock, nil
}

// writeOwner writes this process's ID for the error message of a second playground in this folder.
func writeOwner(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (f *folder) path(names ...string) string {
	return filepath.Join(append([]string{f.dir}, names...)...)
}

// close unlocks the folder, and removes it if it is temporary.
func (f *folder) close() error {
	var err error
	if f.temporary {
		err = removeAll(f.dir)
	}
	return errors.Join(err, f.lock.Close())
}
