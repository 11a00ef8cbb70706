package scenario

import (
	"fmt"
	"slices"
	"strings"

	"tenon.sh/engine"
	"tenon.sh/engine/overlay"
)

// File is a scenario: statements that describe a cluster, commands for the engine, and the expected results.
type File struct {
	// Snapshot is the cluster at the first command, or at the end of a file without commands. It must not be changed.
	Snapshot *engine.Snapshot
	// Options are the options of the first command.
	Options engine.Options
	// SaysEffort is true if that command names an effort, even 0, which is a controller's effort.
	SaysEffort bool
	// Course is the cluster's future, for simulations.
	Course Course

	text  string
	parts []part
}

// IsEmpty reports whether the file has no statements and no commands.
func (f *File) IsEmpty() bool {
	return !slices.ContainsFunc(f.parts, func(p part) bool { return len(p.statements) > 0 || p.command != nil })
}

// part is one command with the statements before it. The last part may have no command.
type part struct {
	source     string // the text up to the line ----
	statements []statement
	command    *command
	want       string
}

// statement is one line of a scenario with its continuation lines, or one block of YAML.
type statement struct {
	words []word
	yaml  string
	line  int
}

// separator stands between a command and its expected output.
const separator = "----"

// Parse reads a scenario. Its errors are SyntaxErrors, which name the line and the word. Only Run executes the statements after the first
// command, because they may depend on the command's result.
func Parse(text string) (*File, error) {
	f := &File{text: text}
	s := &scanner{lines: strings.Split(text, "\n")}
	for s.more() {
		p, err := s.part()
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, p)
	}
	b := newBuilder()
	if len(f.parts) > 0 {
		if err := b.buildAll(f.parts[0].statements); err != nil {
			return nil, err
		}
		if c := f.parts[0].command; c != nil {
			f.Options, f.SaysEffort = c.options, c.effort
		}
	}
	f.Snapshot, f.Course = b.take(), b.course
	return f, nil
}

// scanner reads the lines of a scenario.
type scanner struct {
	lines []string
	at    int
}

func (s *scanner) more() bool { return s.at < len(s.lines) }

// part reads up to the end of the next command's expected output.
func (s *scanner) part() (part, error) {
	p := part{}
	start := s.at
	for s.more() {
		st, err := s.statement()
		if err != nil {
			return p, err
		}
		if st == nil {
			continue
		}
		if st.words == nil || !isCommand(st.words) {
			p.statements = append(p.statements, *st)
			continue
		}
		c, err := readCommand(st.words)
		if err != nil {
			return p, err
		}
		p.command = &c
		if !s.more() || strings.TrimSpace(s.lines[s.at]) != separator {
			// There is no expected output yet: Run adds it here.
			p.source = strings.Join(s.lines[start:s.at], "\n") + "\n" + separator + "\n"
			return p, nil
		}
		s.at++
		p.source = strings.Join(s.lines[start:s.at], "\n") + "\n"
		p.want = s.output()
		return p, nil
	}
	p.source = strings.Join(s.lines[start:], "\n")
	return p, nil
}

// output reads expected output: all lines before an empty one.
func (s *scanner) output() string {
	start := s.at
	for s.more() && s.lines[s.at] != "" {
		s.at++
	}
	if s.at == start {
		return ""
	}
	return strings.Join(s.lines[start:s.at], "\n") + "\n"
}

// statement reads one statement with its continuation lines, which are indented. It returns nil for an empty line or a comment.
func (s *scanner) statement() (*statement, error) {
	line := s.at + 1
	words, err := splitWords(line, s.lines[s.at])
	if err != nil {
		return nil, err
	}
	s.at++
	if len(words) == 0 {
		return nil, nil
	}
	if words[0].text == "yaml" {
		return s.block(line)
	}
	for s.more() && isContinuation(s.lines[s.at]) {
		more, err := splitWords(s.at+1, s.lines[s.at])
		if err != nil {
			return nil, err
		}
		words = append(words, more...)
		s.at++
	}
	return &statement{words: words, line: line}, nil
}

func isContinuation(line string) bool {
	return strings.TrimSpace(line) != "" && (line[0] == ' ' || line[0] == '\t')
}

// block reads the lines between yaml and end.
func (s *scanner) block(line int) (*statement, error) {
	start := s.at
	for s.more() {
		s.at++
		if strings.TrimSpace(s.lines[s.at-1]) == "end" {
			return &statement{yaml: strings.Join(s.lines[start:s.at-1], "\n"), line: line}, nil
		}
	}
	return nil, &SyntaxError{Line: line, Word: "yaml", Problem: "there is no line that says end"}
}

// buildAll executes statements in order.
func (b *builder) buildAll(statements []statement) error {
	for _, st := range statements {
		if st.words == nil {
			if err := b.yaml(st); err != nil {
				return err
			}
			continue
		}
		if err := b.build(st.words); err != nil {
			return err
		}
	}
	return nil
}

// yaml adds the Kubernetes objects of an inline block.
func (b *builder) yaml(st statement) error {
	objects, err := readDocuments(Source{Name: "yaml", Data: []byte(st.yaml)})
	if err != nil {
		return &SyntaxError{Line: st.line, Word: "yaml", Problem: err.Error()}
	}
	m := newManifest(b.snapshot)
	if err := m.addAll(objects); err != nil {
		return &SyntaxError{Line: st.line, Word: "yaml", Problem: err.Error()}
	}
	b.snapshot = m.finish()
	return nil
}

// take completes the classes and returns the present snapshot.
func (b *builder) take() *engine.Snapshot {
	b.expectDevices()
	s := clone(&b.snapshot)
	overlay.Apply(&s)
	loadZones(&s)
	answerSelectors(&s)
	return &s
}

// Check compares the result of each command with the expected result in the file. The error shows the first difference.
func (f *File) Check() error {
	got := f.Run()
	if got == f.text {
		return nil
	}
	want := strings.Split(f.text, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(want) || want[i] != line {
			return fmt.Errorf("line %d: got %q", i+1, line)
		}
	}
	return fmt.Errorf("line %d: expected more", len(strings.Split(got, "\n")))
}
