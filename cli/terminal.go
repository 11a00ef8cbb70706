package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"tenon.sh/engine"
)

// A terminal prints a command's output for people. All output for people uses it. It uses colours only on a real terminal.
type terminal struct {
	out     io.Writer
	colours bool
	// columns is the width of a line in characters; 0, without a terminal, means no limit.
	columns int
}

type colour string

const (
	usual colour = "0"
	faint colour = "2"
	bold  colour = "1"
	green colour = "32"
	red   colour = "31"
	cyan  colour = "36"
)

// brush begins a change of colour in a line before it is printed. Texts of a cluster cannot contain this byte, because it is not valid UTF-8.
const brush = "\xff"

func (c colour) mark() string { return brush + "[" + string(c) + "m" }

// newTerminal returns a terminal for out. It uses colours if out is a terminal and the user has not set NO_COLOR.
func newTerminal(out io.Writer) *terminal {
	t := &terminal{out: out}
	t.measure()
	t.colours = os.Getenv("NO_COLOR") == "" && isTerminal(out)
	return t
}

// measure reads the width of the terminal, which the user may change.
func (t *terminal) measure() {
	if file, isFile := t.out.(*os.File); isFile {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			t.columns = columns
		}
	}
}

// isTerminal reports whether out is a terminal that understands control sequences.
func isTerminal(out io.Writer) bool {
	file, isFile := out.(*os.File)
	return isFile && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// paint colours a text within a line.
func (t *terminal) paint(c colour, text string) string {
	if !t.colours {
		return text
	}
	return c.mark() + text + usual.mark()
}

// line prints one line, even if its text contains control characters.
func (t *terminal) line(format string, args ...any) {
	fmt.Fprintln(t.out, t.shown(fmt.Sprintf(format, args...)))
}

// lines prints several lines.
func (t *terminal) lines(lines []string) {
	for _, line := range lines {
		t.line("%s", strings.TrimRight(line, " "))
	}
}

// notes prints notes about the output.
func (t *terminal) notes(notes []string) {
	for _, note := range notes {
		t.line("note: %s", note)
	}
}

// shown returns a line as it is printed: it escapes invisible characters, except the changes of colour.
func (t *terminal) shown(line string) string {
	var b strings.Builder
	for len(line) > 0 {
		if n := t.brushed(line); n > 0 {
			b.WriteString("\x1b" + line[len(brush):n])
			line = line[n:]
			continue
		}
		text := line
		if next := strings.Index(line[1:], brush); next >= 0 {
			text = line[:1+next]
		}
		b.WriteString(engine.Visible(text, ""))
		line = line[len(text):]
	}
	return b.String()
}

// brushed returns the length of the change of colour at the beginning of the line. It returns 0 if there is none.
func (t *terminal) brushed(line string) int {
	if !t.colours || !strings.HasPrefix(line, brush) {
		return 0
	}
	for _, c := range []colour{usual, faint, bold, green, red, cyan} {
		if strings.HasPrefix(line, c.mark()) {
			return len(c.mark())
		}
	}
	return 0
}
