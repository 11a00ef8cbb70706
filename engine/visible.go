package engine

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is a text as people see it. Much of what people read was written by others: a user who may make a pod must not move the cursor of
// an administrator, forge a line or turn it round. So a character that cannot be seen is spelled, as Go does: \x1b, \n, \u202e. Those in except
// stay as they are.
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
