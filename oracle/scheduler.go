// Package oracle compares plans of the engine with kube-scheduler itself.
//
// A Scheduler is a process that runs the filter plugins of kube-scheduler, without a cluster, on given objects. A Judge replays a plan in it,
// one placement after another, and reports disagreements. Draw makes random clusters with everything that the engine knows.
//
// The package does not check the cost of a plan, nor whether there is a better one.
package oracle

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/playground"
)

// A Scheduler returns which nodes may run a pod. Only one goroutine at a time may use it.
type Scheduler struct {
	process   *exec.Cmd
	stdin     io.WriteCloser
	questions *json.Encoder
	buffer    *bufio.Writer
	answers   *bufio.Reader
	complaint *strings.Builder // the stderr of the process, complete once it has ended
}

// A Verdict is kube-scheduler's answer for one pod and one node.
type Verdict struct {
	Node string `json:"node"`
	OK   bool   `json:"ok"`
	// Plugin is the first filter plugin that refused, Message its reason.
	Plugin  string `json:"plugin"`
	Message string `json:"message"`
}

// A question is one line of the protocol that `controlplane oracle --help` describes.
type question struct {
	Op      string             `json:"op"`
	Objects *objects           `json:"objects,omitempty"`
	Config  *config            `json:"config,omitempty"`
	Pod     *corev1.Pod        `json:"pod,omitempty"`
	Nodes   []string           `json:"nodes,omitempty"`
	Node    any                `json:"node,omitempty"`
	CSINode *storagev1.CSINode `json:"csiNode,omitempty"`
}

type config struct {
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	Scheduler          string                            `json:"scheduler,omitempty"`
}

// A Score holds the results of kube-scheduler's score plugins for a node and a pod: each plugin's score times its weight, and the sum.
type Score struct {
	Node    string           `json:"node"`
	Total   int64            `json:"total"`
	Plugins map[string]int64 `json:"plugins"`
}

type answer struct {
	Verdicts []Verdict `json:"verdicts"`
	Scores   []Score   `json:"scores"`
	Error    string    `json:"error"`
}

// Open starts the process, which ends with the context at the latest. The binary is the one of package controlplane.
func Open(ctx context.Context) (*Scheduler, error) {
	binary, err := playground.FindBinary()
	if err != nil {
		return nil, err
	}
	s := &Scheduler{process: exec.CommandContext(ctx, binary, "oracle"), complaint: &strings.Builder{}}
	s.process.Stderr = s.complaint
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s oracle: %w", binary, err)
	}
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s oracle: %w", binary, err)
	}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("start %s oracle: %w", binary, err)
	}
	s.buffer = bufio.NewWriterSize(s.stdin, 1<<16)
	s.questions = json.NewEncoder(s.buffer)
	s.answers = bufio.NewReaderSize(stdout, 1<<16)
	return s, nil
}

// Close ends the process, because its input ends.
func (s *Scheduler) Close() error {
	if err := s.stdin.Close(); err != nil {
		return fmt.Errorf("stop the oracle: %w", err)
	}
	if err := s.process.Wait(); err != nil {
		return fmt.Errorf("stop the oracle: %w%s", err, s.said())
	}
	return nil
}

// said returns the stderr of the process, in brackets. The process must have ended.
func (s *Scheduler) said() string {
	if text := strings.TrimSpace(s.complaint.String()); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// Reset replaces the scheduler's cluster by the snapshot, with these default spread constraints, which may be empty. It leaves out pods without
// a node.
func (s *Scheduler) Reset(snapshot *engine.Snapshot, defaults []corev1.TopologySpreadConstraint) error {
	_, err := s.tell(question{Op: "reset", Objects: objectsOf(snapshot), Config: &config{DefaultConstraints: defaults}})
	return err
}

// Configure is Reset for a scheduler with this KubeSchedulerConfiguration. Each pod has the profile of the scheduler that its spec names.
func (s *Scheduler) Configure(snapshot *engine.Snapshot, document string) error {
	_, err := s.tell(question{Op: "reset", Objects: objectsOf(snapshot), Config: &config{Scheduler: document}})
	return err
}

// Score returns the scores of the nodes that may run the pod. It changes nothing.
func (s *Scheduler) Score(pod *corev1.Pod, nodes ...string) ([]Score, error) {
	a, err := s.tell(question{Op: "score", Pod: pod, Nodes: nodes})
	return a.Scores, err
}

// Again repeats the last Reset without sending the objects again.
func (s *Scheduler) Again(defaults []corev1.TopologySpreadConstraint) error {
	_, err := s.tell(question{Op: "reset", Config: &config{DefaultConstraints: defaults}})
	return err
}

// Ask returns for each of the nodes, in their order, whether it may run the pod now. It changes nothing.
func (s *Scheduler) Ask(pod *corev1.Pod, nodes ...string) ([]Verdict, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	a, err := s.tell(question{Op: "ask", Pod: pod, Nodes: nodes})
	if err == nil && len(a.Verdicts) != len(nodes) {
		return nil, fmt.Errorf("ask the oracle: %d verdicts on %d nodes", len(a.Verdicts), len(nodes))
	}
	return a.Verdicts, err
}

// Bind binds the pod to the node, even if plugins refuse. It binds claims of the pod that wait for a first consumer. If no volume matches, it
// creates one in the node's zone.
func (s *Scheduler) Bind(pod *corev1.Pod, node string) error {
	_, err := s.tell(question{Op: "bind", Pod: pod, Node: node})
	return err
}

// Unbind removes the pod from its node. Its claims stay bound.
func (s *Scheduler) Unbind(pod *corev1.Pod) error {
	_, err := s.tell(question{Op: "unbind", Pod: pod})
	return err
}

// AddNode adds a node, or replaces an existing one, whose pods stay. csi may be nil.
func (s *Scheduler) AddNode(node *corev1.Node, csi *storagev1.CSINode) error {
	_, err := s.tell(question{Op: "add", Node: node, CSINode: csi})
	return err
}

func (s *Scheduler) tell(q question) (answer, error) {
	if err := errors.Join(s.questions.Encode(q), s.buffer.Flush()); err != nil {
		return answer{}, fmt.Errorf("ask the oracle: %w", err)
	}
	line, err := s.answers.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("ask the oracle: it has ended: %w", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, fmt.Errorf("ask the oracle: read its answer %q: %w", line, err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("ask the oracle: %s", a.Error)
	}
	return a, nil
}
