package dashboard_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
)

// A row is a node of a picture, as in the document of tenon nodes.
type row map[string]any

func share(requested, allocatable float64) map[string]float64 {
	return map[string]float64{"requested": requested, "allocatable": allocatable}
}

// picture returns a picture of so many nodes in three pools, zones and types. Each tenth node would be removed, and each hundredth has no price.
func picture(nodes int) *dashboard.Picture {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	p := &dashboard.Picture{Cluster: "shop", At: now, NodePools: []string{"batch", "general", "gpu"}}
	var rows []row
	total, unpriced := 0.0, 0
	for i := range nodes {
		price := 0.05 * float64(1+i*7%40)
		r := row{
			"node": fmt.Sprintf("ip-10-%d-%d-%d.internal", i%3, i/250, i%250), "claim": fmt.Sprintf("claim-%05d", i), "nodePool": p.NodePools[i%3],
			"instanceType": []string{"m7i.large", "m7i.4xlarge", "g6.xlarge"}[i/2%3], "zone": string("abc"[i/5%3]), "capacityType": []string{"spot", "on-demand"}[i%2],
			"pricePerHour": price, "created": now.Add(-time.Duration(i+1) * time.Minute), "state": "ready",
			"cpu": share(float64(i%9), 8), "memory": share(float64(i%7)*(1<<30), 8<<30), "pods": i % 30,
			"kept": map[string]string{"code": "NoCheaperPlace", "message": "no cheaper place was found for its pods"},
		}
		switch {
		case i%100 == 99:
			r["pricePerHour"] = nil
			unpriced++
		case i%10 == 3:
			delete(r, "kept")
			r["disruption"] = "Empty, saves $0.1700/h"
		case i%50 == 7:
			r["state"] = "not ready"
		}
		if r["pricePerHour"] != nil {
			total += price
		}
		rows = append(rows, r)
	}
	p.Nodes = document(map[string]any{"kind": "Nodes", "pricePerHour": total, "unpriced": unpriced, "waiting": len(p.Pods), "cpu": share(1, 2), "memory": share(1, 2), "nodes": rows})
	p.Plan = document(map[string]any{"kind": "Plan", "launches": []any{}})
	p.Explain = func(kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
		if strings.Contains(name, "missing") {
			return nil, fmt.Errorf("there is no %s %s", kind, name)
		}
		story := dashboard.Story{Kind: string(kind), Name: name, Headline: "it stays: because", Parts: []dashboard.Part{
			{Facts: []dashboard.Fact{{Name: "pool", Text: "general"}}}, {Rows: [][]string{{"POD", "LARGEST SHARE"}, {"shop/web-1", "9 % cpu"}}},
		}}
		return &dashboard.Explanation{Document: []byte(`{"kind":"` + name + `"}`), Story: story}, nil
	}
	return p
}

func document(content any) []byte {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return text
}

// serve returns the handler of a picture that never changes.
func serve(t testing.TB, p *dashboard.Picture) http.Handler {
	t.Helper()
	source := func(context.Context) (*dashboard.Picture, error) { return p, nil }
	reader, err := dashboard.NewReader(t.Context(), source, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// ask sends a request like a browser on this machine.
func ask(handler http.Handler, method, address string, headers ...string) *httptest.ResponseRecorder {
	return askWith(handler, method, address, nil, headers...)
}

func askWith(handler http.Handler, method, address string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, address, body)
	r.Host = "localhost:8230"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// get returns the text at an address, which must exist.
func get(t *testing.T, handler http.Handler, address string) string {
	t.Helper()
	w := ask(handler, http.MethodGet, address)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d: %s", address, w.Code, w.Body)
	}
	return w.Body.String()
}

// between returns the texts between two marks.
func between(text, from, to string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(text, from)
		if !ok {
			return out
		}
		found, after, _ := strings.Cut(rest, to)
		out, text = append(out, found), after
	}
}

func unzip(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
