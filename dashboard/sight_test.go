package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
)

// seen returns the handler of a picture for readers with this sight.
func seen(t *testing.T, p *dashboard.Picture, sight func(*http.Request, []string) (dashboard.Sight, error)) http.Handler {
	t.Helper()
	reader, err := dashboard.NewReader(t.Context(), func(context.Context) (*dashboard.Picture, error) { return p, nil }, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{Sight: sight})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// A reader who sees the pods of a namespace sees the objects there that ask for several pods, and no others.
func TestGroupsAndRequestsAreSeenAsThePodsOfTheirNamespace(t *testing.T) {
	t.Parallel()
	p := picture(3)
	p.Together = []dashboard.Together{{Kind: dashboard.KindGroup, Name: "shop/train"}, {Kind: dashboard.KindRequest, Name: "vault/nightly"}}
	handler := seen(t, p, func(_ *http.Request, namespaces []string) (dashboard.Sight, error) {
		if !slices.Equal(namespaces, []string{"shop", "vault"}) {
			t.Errorf("asked for namespaces %v", namespaces)
		}
		return dashboard.Sight{Namespaces: []string{"shop"}}, nil
	})
	if page := get(t, handler, "/why?q=t"); !strings.Contains(page, "shop/train") || strings.Contains(page, "nightly") {
		t.Error("a search finds what is not seen, or not what is")
	}
	for address, want := range map[string]int{"/why/podgroup/shop/train": 200, "/why/provisioningrequest/vault/nightly": 404, "/json/explain/provisioningrequest/vault/nightly": 404, "/why/pool/general": 404} {
		if w := ask(handler, http.MethodGet, address); w.Code != want {
			t.Errorf("%s: %d, want %d", address, w.Code, want)
		}
	}
}

// If an object cannot be explained, the refusal reveals no other object. A name without a namespace is in the namespace default.
func TestWhatIsNotFoundNamesNothingElsewhere(t *testing.T) {
	t.Parallel()
	p := picture(3)
	p.Explain = func(_ dashboard.Kind, name string) (*dashboard.Explanation, error) {
		return nil, fmt.Errorf("there is no pod %s, but one in namespace vault", name)
	}
	handler := seen(t, p, func(*http.Request, []string) (dashboard.Sight, error) {
		return dashboard.Sight{Namespaces: []string{"shop"}}, nil
	})
	for _, address := range []string{"/json/explain/pod/shop/keys-1", "/why/pod/shop/keys-1", "/json/explain/pod/shop", "/why/pod/shop"} {
		w := ask(handler, http.MethodGet, address)
		if body := w.Body.String(); w.Code != http.StatusNotFound || strings.Contains(body, "vault") {
			t.Errorf("%s: %d %s", address, w.Code, body)
		}
		if body := w.Body.String(); strings.HasSuffix(address, "/shop") && strings.Contains(body, "can be explained") {
			t.Errorf("%s is looked for, in a namespace that is not seen", address)
		}
	}
}

// Sentences may name pods of any namespace, so a reader who does not see all pods gets codes and counts.
func TestSentencesThatMayNamePodsAreForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	p := picture(20)
	for from, to := range map[string]string{"no cheaper place was found for its pods": "pod vault/keys-1 holds it", "Empty, saves": "Empty but for vault/keys-1, saves"} {
		if !strings.Contains(string(p.Nodes), from) {
			t.Fatalf("the picture lacks %q", from)
		}
		p.Nodes = []byte(strings.ReplaceAll(string(p.Nodes), from, to))
	}
	all := dashboard.Sight{}
	handler := seen(t, p, func(*http.Request, []string) (dashboard.Sight, error) { return all, nil })
	for _, address := range []string{"/", "/json/nodes"} {
		if text := get(t, handler, address); strings.Contains(text, "vault") || !strings.Contains(text, "claim-0000") && !strings.Contains(text, "ip-10-") {
			t.Errorf("%s names a pod that is not seen, or no node", address)
		}
	}
	if text := get(t, handler, "/"); !strings.Contains(text, "NoCheaperPlace") {
		t.Error("the reason's code is gone")
	}
	all.All = true
	if text := get(t, handler, "/"); !strings.Contains(text, "vault/keys-1") {
		t.Error("who sees all does not")
	}
}

func TestThePageIsNotServedWhileItIsNotKnownWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	handler := seen(t, few(), func(*http.Request, []string) (dashboard.Sight, error) {
		return dashboard.Sight{All: true}, errors.New("nobody answers")
	})
	for _, address := range []string{"/", "/json/nodes", "/why/node/x"} {
		if w := ask(handler, http.MethodGet, address); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Nobody answers") {
			t.Errorf("%s: %d", address, w.Code)
		}
	}
}
