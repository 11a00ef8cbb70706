package kube

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLabelsAreValidAsTheAPIServerSays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	texts := []string{
		"", "a", "-", "a-", "-a", "a.b", "a..b", "a_b", "A", "1", "01", "1e3", "true", "ä", "a b", "a/b", "/b", "a/", "a/b/c",
		long, long + "a", long + "/" + long, "A/b", "a-/b", "a.-b/c", "a..b/c", strings.Repeat(long+".", 3) + long[:61] + "/a",
		strings.Repeat(long+".", 4) + "/a", "example.com/" + long + "a", "example.com./a", "x\n", "é/b",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := make([]byte, r.IntN(9))
		for i := range b {
			b[i] = "aA0-_./ \xc3"[r.IntN(9)]
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		if want := len(validation.IsQualifiedName(text)) == 0; validKey(text) != want {
			t.Errorf("the key %q is valid: %v, want %v", text, !want, want)
		}
		if want := len(validation.IsValidLabelValue(text)) == 0; validValue(text) != want {
			t.Errorf("the value %q is valid: %v, want %v", text, !want, want)
		}
	}
}
