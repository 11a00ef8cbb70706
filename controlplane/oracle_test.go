package main

import (
	"bytes"
	"strings"
	"testing"
)

// The questions are a reset with one small node, and a pod that fills the node.
const (
	oneNode = `{"op":"reset","objects":{"nodes":[{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"9"}}}]}}`
	bigPod  = `{"metadata":{"namespace":"d","name":"p","uid":"1"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}`
)

func TestOracleAnswersEveryLineInOrder(t *testing.T) {
	t.Parallel()
	another := strings.Replace(bigPod, `"uid":"1"`, `"uid":"2"`, 1)
	accepted, full := `{"verdicts":[{"node":"a","ok":true}]}`, `{"verdicts":[{"node":"a","plugin":"NodeResourcesFit","message":"Insufficient cpu"}]}`
	dialogue := []struct{ question, answer string }{
		{`{"op":"ask","pod":` + bigPod + `,"nodes":["a"]}`, `{"error":"\"ask\": there is no cluster yet; the first question has to be a reset"}`},
		{`{"op":"reset"}`, `{"error":"reset: the objects are missing, and there was no reset before that had some"}`},
		{oneNode, `{}`},
		{`{"op":"ask","pod":` + bigPod + `,"nodes":["a"]}`, accepted},
		{`{"op":"bind","pod":` + bigPod + `,"node":"a"}`, `{}`},
		{`{"op":"ask","pod":` + another + `,"nodes":["a"]}`, full},
		{`{"op":"bind","pod":` + bigPod + `,"node":"a"}`, `{"error":"bind: pod d/p runs on node a already"}`},
		{`{"op":"unbind","pod":` + bigPod + `}`, `{}`},
		{`{"op":"unbind","pod":` + bigPod + `}`, `{"error":"unbind d/p: the pod runs nowhere"}`},
		{`{"op":"ask","pod":` + another + `,"nodes":["a"]}`, accepted},
		{`{"op":"add","node":{"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1","pods":"9"}}}}`, `{}`},
		{`{"op":"ask","pod":` + another + `,"nodes":["a"]}`, full},
		{`{"op":"reset"}`, `{}`},
		{`{"op":"ask","pod":` + another + `,"nodes":["a"]}`, accepted},
		{`{"op":"ask","pod":` + another + `,"nodes":["b"]}`, `{"error":"ask d/p: there is no node \"b\""}`},
		{`{"op":"bind","pod":` + another + `,"node":"b"}`, `{"error":"bind d/p: there is no node \"b\""}`},
		{`{"op":"bind"}`, `{"error":"\"bind\": the pod is missing"}`},
		{`{"op":"dance","pod":{}}`, `{"error":"there is no op \"dance\"; there are reset, ask, score, bind, unbind and add"}`},
		{`nonsense`, `{"error":"read the question: invalid character 'o' in literal null (expecting 'u')"}`},
	}
	var questions, want []string
	for _, d := range dialogue {
		questions, want = append(questions, d.question), append(want, d.answer)
	}
	got := converse(t, strings.Join(questions, "\n"))
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("answer %d to %s\nis   %s\nnot  %s", i, questions[i], got[min(i, len(got)-1)], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d answers to %d questions", len(got), len(want))
	}
}

func TestOracleOutlivesObjectsThatNoServerHolds(t *testing.T) {
	t.Parallel()
	got := converse(t, `{"op":"reset","objects":{"nodes":[null],"pods":[null]}}
{"op":"add","node":7}
`+oneNode+`
{"op":"add","node":7}
{"op":"ask","pod":{},"nodes":["a"]}
`)
	if len(got) != 5 || got[2] != "{}" || !strings.Contains(got[4], `"ok":true`) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	for _, i := range []int{0, 1, 3} {
		if !strings.HasPrefix(got[i], `{"error":`) {
			t.Errorf("answer %d is %s", i, got[i])
		}
	}
}

func converse(t *testing.T, questions string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := answerQuestions(t.Context(), strings.NewReader(questions), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}
