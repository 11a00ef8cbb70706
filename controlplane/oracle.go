package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// oracleUsage describes the protocol; `controlplane oracle` with any argument prints it.
const oracleUsage = `usage: controlplane oracle < questions > answers

Answers, with kube-scheduler's own plugins, which nodes may run a pod and how it scores them. Every line of input is one question, every line
of output the answer to one, in order:

  {"op":"reset","objects":{"nodes":[...],"pods":[...],...},"config":{"defaultConstraints":[...]}}   {}
      starts anew with these objects; without "objects" with those of the last reset; "scheduler" in "config" may be the text
      of a KubeSchedulerConfiguration, of whose profiles each pod has that which it names
  {"op":"ask","pod":{...},"nodes":["a","b"]}     {"verdicts":[{"node":"a","ok":true},{"node":"b","plugin":"NodePorts","message":"..."}]}
      changes nothing
  {"op":"score","pod":{...},"nodes":["a","b"]}   {"scores":[{"node":"a","total":175,"plugins":{"NodeResourcesFit":100,...}}]}
      of those that may run the pod; changes nothing
  {"op":"bind","pod":{...},"node":"a"}           {}
      the pod runs on the node, whatever the plugins say; its claims that wait for a first consumer are bound
  {"op":"unbind","pod":{...}}                    {}
      the pod is gone from its node; its claims stay bound
  {"op":"add","node":{...},"csiNode":{...}}      {}
      a new node, or another state of one that there is; its pods stay

What cannot be understood is answered with {"error":"..."}.
`

// An oracleQuestion is one line of input.
type oracleQuestion struct {
	Op      string             `json:"op"`
	Objects *oracleObjects     `json:"objects"`
	Config  oracleConfig       `json:"config"`
	Pod     *corev1.Pod        `json:"pod"`
	Nodes   []string           `json:"nodes"`
	Node    json.RawMessage    `json:"node"` // bind: a name; add: a Node
	CSINode *storagev1.CSINode `json:"csiNode"`
}

// An oracleConfig holds the settings of kube-scheduler's configuration that change the answers.
type oracleConfig struct {
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	// Scheduler is the text of a whole configuration. If it is set, DefaultConstraints are ignored.
	Scheduler string `json:"scheduler"`
}

// An oracleAnswer is one line of output.
type oracleAnswer struct {
	Verdicts []oracleVerdict `json:"verdicts,omitempty"`
	Scores   []oracleScore   `json:"scores,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// An oracleVerdict holds whether a node may run the pod. If not, it names the plugin that refused the node, and the reason.
type oracleVerdict struct {
	Node    string `json:"node"`
	OK      bool   `json:"ok,omitempty"`
	Plugin  string `json:"plugin,omitempty"`
	Message string `json:"message,omitempty"`
}

// An oracleScore holds the weighted scores of the score plugins for a node, and their sum.
type oracleScore struct {
	Node    string           `json:"node"`
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
}

// runOracle answers questions until its input ends.
func runOracle(args []string) int {
	if len(args) > 1 {
		fmt.Fprint(os.Stderr, oracleUsage)
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// The plugins log objects that they do not find, but the answers contain that too.
	klog.SetLogger(klog.Logger{})
	if err := answerQuestions(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "controlplane oracle: %v\n", err)
		return 1
	}
	return 0
}

func answerQuestions(ctx context.Context, in io.Reader, out io.Writer) error {
	metrics.Register() // before the first cache is made, because its goroutine writes metrics
	world := &oracleWorld{}
	defer world.end()
	lines, answers := bufio.NewReaderSize(in, 1<<20), json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for ctx.Err() == nil {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read a question: %w", err)
		}
		answer, problem := world.answer(ctx, line)
		if problem != nil {
			answer = oracleAnswer{Error: problem.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
	return nil
}

// answer answers one question. It never ends the process, although a plugin may panic for objects that an API server would have refused.
func (w *oracleWorld) answer(ctx context.Context, line []byte) (answer oracleAnswer, err error) {
	var q oracleQuestion
	if err := json.Unmarshal(line, &q); err != nil {
		return answer, fmt.Errorf("read the question: %w", err)
	}
	defer func() {
		if cause := recover(); cause != nil {
			w.frameworks = nil
			err = fmt.Errorf("%q: %v; start anew with a reset", q.Op, cause)
		}
	}()
	if q.Op == "reset" {
		return answer, w.reset(ctx, q.Objects, q.Config)
	}
	if w.frameworks == nil {
		return answer, fmt.Errorf("%q: there is no cluster yet; the first question has to be a reset", q.Op)
	}
	if q.Pod == nil && q.Op != "add" {
		return answer, fmt.Errorf("%q: the pod is missing", q.Op)
	}
	switch q.Op {
	case "ask":
		answer.Verdicts, err = w.ask(ctx, q.Pod, q.Nodes)
		return answer, err
	case "score":
		answer.Scores, err = w.score(ctx, q.Pod, q.Nodes)
		return answer, err
	case "bind":
		var node string
		if err := json.Unmarshal(q.Node, &node); err != nil {
			return answer, fmt.Errorf("bind %s/%s: the node has to be a name: %w", q.Pod.Namespace, q.Pod.Name, err)
		}
		return answer, w.bind(q.Pod, node)
	case "unbind":
		return answer, w.unbind(q.Pod)
	case "add":
		var node corev1.Node
		if err := json.Unmarshal(q.Node, &node); err != nil || node.Name == "" {
			return answer, fmt.Errorf("add: the node has to be a Node with a name: %w", err)
		}
		return answer, w.add(&node, q.CSINode)
	}
	return answer, fmt.Errorf("there is no op %q; there are reset, ask, score, bind, unbind and add", q.Op)
}
