package cli

import (
	"fmt"
	"io"
	"sync"
)

// progress is one line on a terminal that shows the state of a command and is cleared before the result. A nil progress, as for a pipe,
// prints nothing.
type progress struct {
	mu    sync.Mutex // guards the fields below and serializes writes to out
	t     *terminal
	shown string
}

// newProgress returns nil if out is no terminal.
func newProgress(out io.Writer) *progress {
	if !isTerminal(out) {
		return nil
	}
	return &progress{t: newTerminal(out)}
}

const clearLine = "\r\x1b[K"

// say replaces the line.
func (p *progress) say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = fmt.Sprintf(format, args...)
	p.draw()
}

func (p *progress) draw() {
	line := p.shown
	if p.t.columns > 1 {
		line = shortened(line, p.t.columns-1) // a line that wraps cannot be cleared
	}
	fmt.Fprint(p.t.out, clearLine+p.t.shown(line))
}

// end clears the line.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != "" {
		fmt.Fprint(p.t.out, clearLine)
	}
	p.shown = ""
}

// beside returns a writer to out for lines that stay above the progress line.
func (p *progress) beside(out io.Writer) io.Writer {
	if p == nil {
		return out
	}
	return besideProgress{p}
}

type besideProgress struct{ *progress }

func (b besideProgress) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == "" {
		return b.t.out.Write(text)
	}
	fmt.Fprint(b.t.out, clearLine)
	n, err := b.t.out.Write(text)
	b.draw()
	return n, err
}
