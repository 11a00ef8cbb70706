package engine

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns the text with each invisible character spelled as in Go: \x1b, \n, \u202e. Characters in except stay as they are. Messages hold text
// of users, and a user who may create a pod must not move the cursor of an administrator's terminal, forge a line or reverse it.
func Visible(text, except string) string {
	unseen := func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsGraphic(r) && !strings.ContainsRune(except, r)
	}
	if !strings.ContainsFunc(text, unseen) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1: // no UTF-8
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsGraphic(r) || strings.ContainsRune(except, r):
			b.WriteString(text[:size])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}
