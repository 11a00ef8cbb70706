package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A filter is a list of terms. A node is shown if all terms hold for it.
type filter []term

// A term compares a property of a node with values, or looks for a word in the names of the node, its claim and its pods.
type term struct {
	key    string // "" for a word
	op     string
	values []string // one of them must match; in lower case
	number float64
}

// FilterError says where a filter is wrong, and why: At is the number of characters before the place.
type FilterError struct {
	Filter string
	At     int
	Says   string
}

func (e *FilterError) Error() string {
	return fmt.Sprintf("filter, character %d: %s", e.At+1, e.Says)
}

// Mark returns the filter with a sign below the place.
func (e *FilterError) Mark() string { return e.Filter + "\n" + strings.Repeat(" ", e.At) + "^" }

// textKeys returns the properties of nodes that are text, numberKeys the ones that are numbers.
func textKeys() map[string]func(*node) string {
	return map[string]func(*node) string{
		"name":     func(n *node) string { return n.Node },
		"claim":    func(n *node) string { return n.Claim },
		"pool":     func(n *node) string { return n.NodePool },
		"type":     func(n *node) string { return n.InstanceType },
		"zone":     func(n *node) string { return n.Zone },
		"capacity": func(n *node) string { return n.CapacityType },
		"state":    func(n *node) string { return n.Standing() },
		"reason":   reasonOf,
	}
}

// reasonOf returns the code of the reason that keeps a node.
func reasonOf(n *node) string {
	if n.Kept == nil {
		return ""
	}
	return n.Kept.Code
}

// numberKeys returns functions that return a number, and whether it is known.
func numberKeys() map[string]func(*node) (float64, bool) {
	known := func(of func(*node) float64) func(*node) (float64, bool) {
		return func(n *node) (float64, bool) { return of(n), true }
	}
	return map[string]func(*node) (float64, bool){
		"price":  func(n *node) (float64, bool) { return n.Price(), n.PricePerHour != nil },
		"cpu":    known(func(n *node) float64 { return 100 * n.CPU.Of() }),
		"memory": known(func(n *node) float64 { return 100 * n.Memory.Of() }),
		"pods":   known(func(n *node) float64 { return float64(n.Pods) }),
		"age":    func(n *node) (float64, bool) { return n.age.Hours(), !n.Created.IsZero() },
	}
}

const filterKeys = "name, claim, pool, type, zone, capacity, state, reason, price, cpu, memory, pods or age"

// parseFilter reads terms such as pool=gpu state=goes price>1.
func parseFilter(text string) (filter, error) {
	p := filterParser{text: text}
	var out filter
	for {
		p.skipSpace()
		if p.at == len(text) {
			return out, nil
		}
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
}

type filterParser struct {
	text string
	at   int // bytes
}

func (p *filterParser) fail(at int, format string, args ...any) error {
	return &FilterError{p.text, utf8.RuneCountInString(p.text[:at]), fmt.Sprintf(format, args...)}
}

func (p *filterParser) skipSpace() {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
}

func (p *filterParser) term() (term, error) {
	begin := p.at
	if p.text[p.at] == '"' {
		word, _, err := p.value()
		return term{values: []string{word}}, err
	}
	key := p.until("=!<>~")
	op := p.operator()
	if op == "" {
		if p.at < len(p.text) && !unicode.IsSpace(rune(p.text[p.at])) { // a lone !
			return term{}, p.fail(p.at, "%q compares nothing: it is =, !=, ~, <, <=, > or >=", p.text[p.at:p.at+1])
		}
		return term{values: []string{strings.ToLower(key)}}, nil
	}
	text, number := textKeys()[key], numberKeys()[key]
	if text == nil && number == nil {
		return term{}, p.fail(begin, "nodes have no %q: it is %s", key, filterKeys)
	}
	if text != nil && strings.ContainsAny(op, "<>") {
		return term{}, p.fail(begin+len(key), "%s has no size: compare with =, != or ~", key)
	}
	if number != nil && op == "~" {
		return term{}, p.fail(begin+len(key), "%s is a number: compare with =, !=, <, <=, > or >=", key)
	}
	at := p.at
	value, quoted, err := p.value()
	if err != nil {
		return term{}, err
	}
	if number != nil {
		x, err := parseNumber(key, value)
		if err != nil {
			return term{}, p.fail(at, "%v", err)
		}
		return term{key: key, op: op, number: x}, nil
	}
	if quoted {
		return term{key: key, op: op, values: []string{value}}, nil
	}
	return term{key: key, op: op, values: strings.Split(value, ",")}, nil
}

// until takes the text before the next space or one of the characters.
func (p *filterParser) until(stop string) string {
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(stop, r) })
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return rest[:end]
}

func (p *filterParser) operator() string {
	for _, op := range []string{"!=", "<=", ">=", "=", "<", ">", "~"} {
		if strings.HasPrefix(p.text[p.at:], op) {
			p.at += len(op)
			return op
		}
	}
	return ""
}

// value takes a word or a text in quotes. It may be empty only in quotes: pool="" is nodes without a pool.
func (p *filterParser) value() (value string, quoted bool, err error) {
	if !strings.HasPrefix(p.text[p.at:], `"`) {
		v := p.until("")
		if v == "" {
			return "", false, p.fail(p.at, "a value is missing here")
		}
		return strings.ToLower(v), false, nil
	}
	end := strings.IndexByte(p.text[p.at+1:], '"')
	if end < 0 {
		return "", false, p.fail(p.at, "the quote that begins here does not end")
	}
	v := p.text[p.at+1 : p.at+1+end]
	p.at += end + 2
	return strings.ToLower(v), true, nil
}

// quoteValue writes a value in the form that parseFilter reads.
func quoteValue(value string) string {
	if value == "" || strings.ContainsFunc(value, unicode.IsSpace) || strings.Contains(value, ",") {
		return `"` + strings.ReplaceAll(value, `"`, "") + `"`
	}
	return value
}

// parseNumber reads 1.5, $1.5, 50% or, as an age, 90m, 2h or 3d.
func parseNumber(key, text string) (float64, error) {
	number := text
	switch key {
	case "price":
		number = strings.TrimPrefix(text, "$")
	case "cpu", "memory":
		number = strings.TrimSuffix(text, "%")
	case "age":
		if days, ok := strings.CutSuffix(text, "d"); ok {
			if x, err := strconv.ParseFloat(days, 64); err == nil && x == x {
				return 24 * x, nil
			}
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("age is compared with a time such as 90m, 2h or 3d, not %q", text)
		}
		return d.Hours(), nil
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || x != x {
		return 0, fmt.Errorf("%s is compared with a number, not %q", key, text)
	}
	return x, nil
}

// matches lists the nodes that meet all terms.
func (f filter) matches(v *view) []*node {
	texts, numbers := textKeys(), numberKeys()
	hosts := make([]map[string]bool, len(f)) // for words: the nodes of pods with that name
	for i, t := range f {
		if t.key == "" {
			hosts[i] = v.hostsOf(t.values[0])
		}
	}
	out := make([]*node, 0, len(v.nodes.Nodes))
nodes:
	for i := range v.nodes.Nodes {
		n := &v.nodes.Nodes[i]
		for j, t := range f {
			var ok bool
			switch {
			case t.key == "":
				ok = contains(n.Node, t.values[0]) || contains(n.Claim, t.values[0]) || hosts[j][n.Node]
			case texts[t.key] != nil:
				ok = t.holdsText(texts[t.key](n))
			default:
				x, known := numbers[t.key](n)
				ok = known && t.holdsNumber(x)
			}
			if !ok {
				continue nodes
			}
		}
		out = append(out, n)
	}
	return out
}

// hostsOf returns the nodes of the pods whose names contain the text, and the nodes on which such pods are planned.
func (v *view) hostsOf(text string) map[string]bool {
	out := map[string]bool{}
	for i := range v.Pods {
		p := &v.Pods[i]
		if !contains(p.Name, text) {
			continue
		}
		if p.Node != "" {
			out[p.Node] = true
		} else if p.Waiting != nil && p.Waiting.Fate == Placed {
			out[p.Waiting.On] = true
		}
	}
	return out
}

// contains looks for a text in lower case. Names of Kubernetes are in lower case; a file may contain other names.
func contains(name, text string) bool {
	return strings.Contains(name, text) || strings.Contains(strings.ToLower(name), text)
}

func (t term) holdsText(have string) bool {
	have = strings.ToLower(have)
	switch t.op {
	case "~":
		return slices.ContainsFunc(t.values, func(v string) bool { return strings.Contains(have, v) })
	case "!=":
		return !slices.Contains(t.values, have)
	}
	return slices.Contains(t.values, have)
}

func (t term) holdsNumber(x float64) bool {
	switch t.op {
	case ">":
		return x > t.number
	case ">=":
		return x >= t.number
	case "<":
		return x < t.number
	case "<=":
		return x <= t.number
	case "!=":
		return x != t.number
	}
	return x == t.number
}
