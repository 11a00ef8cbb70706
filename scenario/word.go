package scenario

import (
	"fmt"
	"strings"
)

// SyntaxError is the place and the reason of an error in a scenario.
type SyntaxError struct {
	Line    int
	Word    string
	Problem string
}

func (e *SyntaxError) Error() string {
	if e.Word == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Problem)
	}
	word := e.Word
	if len(word) > mostWord { // a file that is no scenario may be one long line
		word = strings.ToValidUTF8(word[:mostWord], "") + "…"
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, word, e.Problem)
}

// mostWord is the largest number of bytes of a word in an error.
const mostWord = 200

// word is a word of a statement: text without blanks, or with blanks in parentheses or quotes.
type word struct {
	line int
	text string
}

func (w word) errorf(format string, args ...any) error {
	return &SyntaxError{Line: w.line, Word: w.text, Problem: fmt.Sprintf(format, args...)}
}

// splitWords splits a line into words. A word that begins with # ends the line.
func splitWords(line int, text string) ([]word, error) {
	var words []word
	for rest := strings.TrimSpace(text); rest != "" && rest[0] != '#'; rest = strings.TrimSpace(rest) {
		end, err := wordEnd(rest)
		if err != nil {
			return nil, &SyntaxError{Line: line, Word: rest, Problem: err.Error()}
		}
		words = append(words, word{line, rest[:end]})
		rest = rest[end:]
	}
	return words, nil
}

func wordEnd(text string) (int, error) {
	depth, quoted := 0, false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '(':
			depth++
		case r == ')':
			if depth--; depth < 0 {
				return 0, fmt.Errorf("there is no ( for this )")
			}
		case (r == ' ' || r == '\t') && depth == 0:
			return i, nil
		}
	}
	if quoted {
		return 0, fmt.Errorf("the quote is not closed")
	}
	if depth > 0 {
		return 0, fmt.Errorf("the ( is not closed")
	}
	return len(text), nil
}

// reader reads the words of a statement.
type reader struct {
	of    string // the statement or word, for messages
	words []word
	at    int
}

func (r *reader) more() bool { return r.at < len(r.words) }

func (r *reader) next() word {
	r.at++
	return r.words[r.at-1]
}

// peek returns the text of the next word, "" at the end.
func (r *reader) peek() string {
	if !r.more() {
		return ""
	}
	return r.words[r.at].text
}

// cut splits a word of the form key=value.
func (w word) cut() (key, value string) {
	key, value, _ = strings.Cut(w.text, "=")
	return key, unquote(value)
}

// hasValue reports whether the word has the form key=value.
func (w word) hasValue() bool { return strings.Contains(w.text, "=") }

// group returns a reader for the words of a value in parentheses.
func (w word) group(of string) (*reader, error) {
	_, value, _ := strings.Cut(w.text, "=")
	if !strings.HasPrefix(value, "(") || !strings.HasSuffix(value, ")") {
		return nil, w.errorf("write the value in parentheses: %s=(cpu=1 mem=1Gi)", of)
	}
	words, err := splitWords(w.line, value[1:len(value)-1])
	return &reader{of: of, words: words}, err
}

func unquote(text string) string { return strings.ReplaceAll(text, `"`, "") }

// unknown returns the error for a word that a statement does not have.
func (r *reader) unknown(w word, known string) error {
	return w.errorf("%s has no such word; it has %s", r.of, known)
}
