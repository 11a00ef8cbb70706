package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A nodeWatch keeps a list of nodes up to date.
type nodeWatch struct {
	screen *screen
	look   func(ctx context.Context, notes *terminal) (*nodeTable, error)
	// wait waits until the next update. It returns false once ctx has ended.
	wait func(ctx context.Context) bool
}

// run shows the list until ctx ends. If an update fails, run shows the error and tries again.
func (w *nodeWatch) run(ctx context.Context, list *nodeTable) error {
	w.screen.open()
	defer w.screen.close()
	var notes bytes.Buffer
	for {
		w.screen.measure()
		lines := list.lines(w.screen.terminal)
		if text := strings.Join(strings.Fields(notes.String()), " "); text != "" {
			lines = append(lines, "", w.screen.paint(faint, text))
		}
		w.screen.show(lines, list.gist()+notes.String())
		if !w.wait(ctx) {
			return nil
		}
		notes.Reset()
		next, err := w.look(ctx, newTerminal(&notes))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			notes.WriteString("not up to date: " + oneLine(err))
		default:
			list = next
		}
	}
}

// gist returns a text that is equal for two lists with the same content except ages.
func (t *nodeTable) gist() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and text can always be encoded
	}
	return string(text)
}

// A screen shows one text after another. On a terminal each text replaces the one before. Elsewhere texts follow each other, and a text
// without changes is left out.
type screen struct {
	*terminal
	live bool // out is a terminal
	last string
	any  bool
}

func newScreen(out io.Writer) *screen {
	return &screen{terminal: newTerminal(out), live: isTerminal(out)}
}

// open switches to the terminal's alternate screen, so that the earlier content returns at the end. It hides the cursor and turns off line
// wrapping.
func (s *screen) open() {
	if s.live {
		fmt.Fprint(s.out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	}
}

func (s *screen) close() {
	if s.live {
		fmt.Fprint(s.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
}

// show shows the lines. Two texts with the same gist have no important differences.
func (s *screen) show(lines []string, gist string) {
	if s.live {
		fmt.Fprint(s.out, s.frame(lines))
		return
	}
	if s.any && gist == s.last {
		return
	}
	if s.any {
		s.line("")
	}
	s.any, s.last = true, gist
	s.lines(lines)
}

// frame overwrites the terminal's content line by line, because clearing it first would flicker. It writes each line at a position, so that
// the terminal does not scroll, whatever its height.
func (t *terminal) frame(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, t.shown(line))
	}
	b.WriteString("\x1b[J") // clear the rest of the screen
	return b.String()
}
