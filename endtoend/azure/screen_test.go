package azure_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// demo, in the environment, has the journey shown on the terminal, for people.
const demo = "TENON_DEMO"

// A screen tells a journey step by step: on the terminal in the demo, else in the test's log.
type screen struct {
	t       testing.TB
	colours bool
	began   time.Time // of the chapter
	steps   int
}

func newScreen(t testing.TB) *screen {
	info, err := os.Stdout.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &screen{t: t, colours: terminal && os.Getenv(demo) != ""}
}

func (s *screen) line(format string, values ...any) {
	s.t.Helper()
	if os.Getenv(demo) == "" {
		s.t.Logf(format, values...)
		return
	}
	fmt.Printf(format+"\n", values...)
}

func (s *screen) paint(code, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// chapter begins what the steps after it belong to; their times count from here.
func (s *screen) chapter(format string, values ...any) {
	s.t.Helper()
	s.began = time.Now()
	s.line("")
	s.line("%s", s.paint("1", fmt.Sprintf(format, values...)))
}

// step says that something was reached, and what there is to be seen, a line each.
func (s *screen) step(name string, details ...string) {
	s.t.Helper()
	s.steps++
	for i, detail := range details {
		head := s.paint("2", fmt.Sprintf("%6.1f s", time.Since(s.began).Seconds())) + "  " + s.paint("32", fmt.Sprintf("%-14s", name))
		if i > 0 {
			head = strings.Repeat(" ", 24)
		}
		s.line("  %s  %s", head, detail)
	}
}
