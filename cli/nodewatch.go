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
	// wait passes the time between two looks; it reports false once ctx has ended.
	wait func(ctx context.Context) bool
}

// run shows the list until ctx ends. A look that fails is said and tried again.
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

// gist tells lists apart by all but the time.
func (t *nodeTable) gist() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and text can be written
	}
	return string(text)
}

// A screen shows one text after another: in a terminal in the same place, elsewhere one below the other, and then only if
// something has changed.
type screen struct {
	*terminal
	live bool // it is a terminal
	last string
	any  bool
}

func newScreen(out io.Writer) *screen {
	return &screen{terminal: newTerminal(out), live: isTerminal(out)}
}

// open switches to a screen of its own, so that what was there before comes back at the end, hides the cursor, and has
// long lines cut.
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

// show shows the lines; texts of the same gist differ in nothing that matters.
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

// frame overwrites what the terminal shows, line by line and without clearing it first, which would flicker. The place of
// each line is given, so that nothing scrolls, however high the terminal is.
func (t *terminal) frame(lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, t.shown(line))
	}
	b.WriteString("\x1b[J") // whatever is below
	return b.String()
}
