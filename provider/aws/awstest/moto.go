package awstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// motoPatience is the time limit of moto's start, motoInstall that of its installation.
const (
	motoPatience = time.Minute
	motoInstall  = 5 * time.Minute
	motoVersion  = "5.2.1"
)

// errNoMoto means that moto is not installed and cannot be installed.
var errNoMoto = errors.New("no moto_server")

// moto is a running moto_server.
type moto struct {
	url     string
	process *exec.Cmd
	images  string // a file that it reads for every new account
}

// startMoto starts moto_server on a free port of this machine, and waits until it accepts calls.
func startMoto() (*moto, error) {
	program, err := findMoto()
	if err != nil {
		return nil, err
	}
	images, err := writeImages()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "MOTO_AMIS_PATH="+images, "PYTHONUNBUFFERED=1")
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	m := &moto{process: cmd, images: images}
	found, text := make(chan string, 1), strings.Builder{}
	go func() {
		running := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
		lines := bufio.NewScanner(output)
		announced := false
		for lines.Scan() { // to the end, because a full pipe would stop it
			if url := running.FindString(lines.Text()); url != "" && !announced {
				announced = true
				found <- url
			} else if text.Len() < 4096 {
				text.WriteString(lines.Text() + "\n")
			}
		}
		close(found)
	}()
	select {
	case url, ok := <-found:
		if !ok {
			return nil, fmt.Errorf("%s ended before it took calls:\n%s", program, text.String())
		}
		m.url = url
		return m, nil
	case <-time.After(motoPatience):
		m.stop()
		return nil, fmt.Errorf("%s takes no calls after %s", program, motoPatience)
	}
}

func (m *moto) stop() {
	_ = m.process.Process.Kill()
	_ = m.process.Wait()
	_ = os.Remove(m.images)
}

// findMoto finds moto_server on the PATH, or installs it into a folder of the user's cache.
func findMoto() (string, error) {
	if program, err := exec.LookPath("moto_server"); err == nil {
		return program, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w on the PATH, and no folder to install it in: %v", errNoMoto, err)
	}
	folder := filepath.Join(cache, "tenon", "moto-"+motoVersion)
	program := filepath.Join(folder, "bin", "moto_server")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), motoInstall)
	defer cancel()
	for _, command := range [][]string{
		{"python3", "-m", "venv", folder},
		{filepath.Join(folder, "bin", "pip"), "install", "--quiet", "moto[server]==" + motoVersion},
	} {
		if output, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			_ = os.RemoveAll(folder)
			why := strings.TrimSpace(err.Error() + " " + lastLine(output))
			return "", fmt.Errorf("%w on the PATH, and it cannot be installed: %s: %s; install it with pip install 'moto[server]', or install python3 with venv and pip",
				errNoMoto, strings.Join(command, " "), why)
		}
	}
	return program, nil
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}
