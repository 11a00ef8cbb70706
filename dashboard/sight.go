package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Sight is the pods whose names a reader may see: all, or the pods of some namespaces. All readers see nodes, NodePools and prices.
type Sight struct {
	All        bool
	Namespaces []string
}

// errOutOfSight is the answer instead of documents that name pods of all namespaces.
var errOutOfSight = errors.New("this names pods of all namespaces, and is shown to those who may list pods in all of them")

// outOfSight replaces the name of a pod that is not shown.
const outOfSight = "a pod of another namespace"

// within returns the picture for a reader who sees the pods of some namespaces only. It copies a fixed list of fields, so a new field
// of a document stays hidden until it is added here.
func (v *view) within(sight Sight) (*view, error) {
	sees := func(pod string) bool {
		namespace, _, both := strings.Cut(pod, "/") // a name alone is one in the namespace default
		return both && slices.Contains(sight.Namespaces, namespace)
	}
	p := &Picture{Cluster: v.Cluster, At: v.At, NodePools: v.NodePools, NoJournal: errOutOfSight.Error()}
	moneyWithin(p, v.Picture, func(namespace string) bool { return slices.Contains(sight.Namespaces, namespace) })
	hidden := v.namespaces()
	hidden = slices.DeleteFunc(hidden, func(namespace string) bool { return slices.Contains(sight.Namespaces, namespace) })
	scrub := scrubber(hidden)
	for _, pod := range v.Pods {
		p.Pods = append(p.Pods, pod.within(sees(pod.Name), scrub))
	}
	for _, x := range v.Together {
		if sees(x.Name) {
			p.Together = append(p.Together, x)
		}
	}
	p.Explain = func(kind Kind, name string) (*Explanation, error) {
		if !slices.Contains([]Kind{KindPod, KindGroup, KindRequest}, kind) || !sees(name) {
			return nil, errOutOfSight
		}
		e, err := v.Explain(kind, name)
		if err != nil { // the error may name other objects
			return nil, fmt.Errorf("there is no %s %s that can be explained: see what the lists of this page name", kind, name)
		}
		return e.within(scrub)
	}
	seesNamespace := func(namespace string) bool { return slices.Contains(sight.Namespaces, namespace) }
	for _, m := range v.Manifests {
		if namespace, _, namespaced := strings.Cut(m.Name, "/"); !namespaced || seesNamespace(namespace) {
			p.Manifests = append(p.Manifests, m)
		}
	}
	if v.Try != nil {
		p.Try = func(text []byte, stop func() bool) (*Outcome, error) {
			out, err := v.Try(text, stop)
			if err != nil {
				return nil, err
			}
			return out.within(seesNamespace)
		}
	}
	var err error
	if p.Nodes, err = json.MarshalIndent(v.nodes.outOfSight(), "", "  "); err != nil {
		return nil, fmt.Errorf("leave names out of the document of the nodes: %w", err)
	}
	if p.Plan, err = json.MarshalIndent(v.plan.within(sees), "", "  "); err != nil {
		return nil, fmt.Errorf("leave names out of the document of the plan: %w", err)
	}
	return newView(p)
}

// namespaces returns the namespaces with pods, or with objects that ask for several pods.
func (v *view) namespaces() []string {
	var out []string
	for i := range v.Pods {
		namespace, _, _ := strings.Cut(v.Pods[i].Name, "/")
		out = append(out, namespace)
	}
	for _, x := range v.Together {
		namespace, _, _ := strings.Cut(x.Name, "/")
		out = append(out, namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scrubber returns a function that removes the names of objects in some namespaces from a text.
func scrubber(namespaces []string) func(string) string {
	if len(namespaces) == 0 {
		return func(text string) string { return text }
	}
	quoted := make([]string, len(namespaces))
	for i, namespace := range namespaces {
		quoted[i] = regexp.QuoteMeta(namespace)
	}
	names := regexp.MustCompile(`\b(?:` + strings.Join(quoted, "|") + `)/[a-z0-9][-a-z0-9.]*`)
	return func(text string) string { return names.ReplaceAllString(text, outOfSight) }
}

func (p Pod) within(seen bool, scrub func(string) string) Pod {
	if p.Waiting == nil {
		if !seen {
			p.Name = ""
		}
		return p
	}
	w := *p.Waiting
	w.Why = scrub(w.Why)
	if !seen {
		p.Name, w.Owner, w.Asks, w.Why = "", "Pods of other namespaces", "", ""
	}
	p.Waiting = &w
	return p
}

// within removes names from a story and its document.
func (e *Explanation) within(scrub func(string) string) (*Explanation, error) {
	out := &Explanation{}
	for _, c := range []struct{ from, to any }{{json.RawMessage(e.Document), (*json.RawMessage)(&out.Document)}, {e.Story, &out.Story}, {e.Reasons, &out.Reasons}} {
		text, err := json.Marshal(c.from)
		if err != nil {
			return nil, err
		}
		var all any
		numbers := json.NewDecoder(bytes.NewReader(text))
		numbers.UseNumber() // as they are written
		if err := numbers.Decode(&all); err != nil {
			return nil, err
		}
		if text, err = json.MarshalIndent(scrubbed(all, scrub), "", "  "); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, c.to); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scrubbed returns a value read from JSON, with all of its texts scrubbed.
func scrubbed(x any, scrub func(string) string) any {
	switch x := x.(type) {
	case string:
		return scrub(x)
	case []any:
		for i := range x {
			x[i] = scrubbed(x[i], scrub)
		}
	case map[string]any:
		for key, value := range x {
			x[key] = scrubbed(value, scrub)
		}
	}
	return x
}

// outOfSight returns the document without sentences, because they may name pods.
func (d nodesDocument) outOfSight() *nodesDocument {
	d.Nodes = slices.Clone(d.Nodes)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Kept != nil {
			kept := *n.Kept
			kept.Message, n.Kept = "", &kept
		}
		if n.Disruption != "" {
			n.Disruption = "would be removed now"
		}
	}
	return &d
}

// within returns the plan with outOfSight in place of the names of pods that are not seen, so these pods still count.
func (d planDocument) within(sees func(pod string) bool) *planDocument {
	d.Launches = slices.Clone(d.Launches)
	for i := range d.Launches {
		pods := slices.Clone(d.Launches[i].Pods)
		for j := range pods {
			if !sees(pods[j]) {
				pods[j] = outOfSight
			}
		}
		d.Launches[i].Pods = pods
	}
	return &d
}

// mostSights is how many different sights of one picture are kept.
const mostSights = 16

// sights holds the views of one picture for readers who do not see everything.
type sights struct {
	mu   sync.Mutex // guards kept
	kept map[string]*view
}

// seenBy returns the part of a picture that the sender of a request may see.
func (s *server) seenBy(r *http.Request, v *view) (*view, error) {
	if s.sight == nil {
		return v, nil
	}
	sight, err := s.sight(r, v.namespaces())
	if err != nil || sight.All {
		return v, err
	}
	slices.Sort(sight.Namespaces)
	key := strings.Join(sight.Namespaces, " ")
	v.sights.mu.Lock()
	defer v.sights.mu.Unlock()
	if v.sights.kept[key] == nil {
		less, err := v.within(sight)
		if err != nil {
			return nil, err
		}
		if v.sights.kept == nil || len(v.sights.kept) == mostSights {
			v.sights.kept = map[string]*view{}
		}
		v.sights.kept[key] = less
	}
	return v.sights.kept[key], nil
}
