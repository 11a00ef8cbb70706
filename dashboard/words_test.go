package dashboard

import "testing"

func TestCapitalsKeepLettersWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "no pod": "No pod", "ärger": "Ärger", "节点": "节点"} {
		if got := capital(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
