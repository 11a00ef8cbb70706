package cli

import (
	"fmt"
	"io"
	"os"
)

// A terminal is where a command writes for people. Colours are used only where somebody sees them.
type terminal struct {
	out     io.Writer
	colours bool
}

type colour string

const (
	faint colour = "2"
	bold  colour = "1"
	green colour = "32"
	red   colour = "31"
	cyan  colour = "36"
)

// newTerminal writes to out, in colours if it is a terminal and the user has not set NO_COLOR.
func newTerminal(out io.Writer) *terminal {
	file, isFile := out.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return &terminal{out: out}
	}
	info, err := file.Stat()
	return &terminal{out: out, colours: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (t *terminal) paint(c colour, text string) string {
	if !t.colours {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// line writes one line.
func (t *terminal) line(format string, args ...any) {
	fmt.Fprintf(t.out, format+"\n", args...)
}
