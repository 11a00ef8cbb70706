package engine_test

import (
	"testing"

	"tenon.sh/engine"
)

func TestWhatCannotBeSeenIsSpelled(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"plain · ü 漢 é":            "plain · ü 漢 é",
		"up\x1b[2Jand\x07":         `up\x1b[2Jand\a`,
		"turned \u202eround\u2066": `turned \u202eround\u2066`,
		"zero\u200bwidth\u00ad":    `zero\u200bwidth\u00ad`,
		"no UTF-8 \xff, \ufffd":    `no UTF-8 \xff, ` + "\ufffd",
		"\x7f\u0085\r":             `\x7f\u0085\r`,
		"a\tb\nc":                  "a\tb\nc",
	} {
		if got := engine.Visible(text, "\t\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := engine.Visible("a\tb\nc", ""), `a\tb\nc`; got != want {
		t.Errorf("in a line: %q, want %q", got, want)
	}
}
