package convert

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// A pair is a key with its value. Both carry comments, so fields are moved as pairs.
type pair struct{ key, value *yaml.Node }

// resolved returns the target of an alias, or the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pairs returns the fields of a mapping, in their order. It returns none for other nodes.
func pairs(n *yaml.Node) []pair {
	n = resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		out = append(out, pair{n.Content[i], n.Content[i+1]})
	}
	return out
}

// items returns the items of a list. It returns none for other nodes.
func items(n *yaml.Node) []*yaml.Node {
	n = resolved(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// field returns the value of a mapping's field. It returns nil if there is none.
func field(n *yaml.Node, name string) *yaml.Node {
	for _, p := range pairs(n) {
		if p.key.Value == name {
			return resolved(p.value)
		}
	}
	return nil
}

// scalar returns the text of a scalar. It returns "" for other nodes.
func scalar(n *yaml.Node) string {
	n = resolved(n)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// take removes a field. The pair is empty if there is none.
func take(n *yaml.Node, name string) pair {
	n = resolved(n)
	for i, p := range pairs(n) {
		if p.key.Value == name {
			n.Content = slices.Delete(n.Content, 2*i, 2*i+2)
			return p
		}
	}
	return pair{}
}

// set sets a field. A new field comes last.
func set(n *yaml.Node, name string, value *yaml.Node) {
	n = resolved(n)
	for i, p := range pairs(n) {
		if p.key.Value == name {
			value.HeadComment, value.LineComment, value.FootComment = p.value.HeadComment, p.value.LineComment, p.value.FootComment
			n.Content[2*i+1] = value
			return
		}
	}
	n.Content = append(n.Content, word(name), value)
}

// put adds a pair under a name, unless it is empty.
func put(n *yaml.Node, name string, p pair) {
	if p.key == nil {
		return
	}
	p.key.Value = name
	n.Content = append(n.Content, p.key, p.value)
}

// with returns the pair with a text as its value. Comments stay.
func (p pair) with(text string) pair {
	value := word(text)
	if p.value != nil {
		value.LineComment, value.HeadComment, value.FootComment = p.value.LineComment, p.value.HeadComment, p.value.FootComment
	}
	if p.key == nil {
		p.key = word("")
	}
	return pair{p.key, value}
}

// mapping returns a mapping with these fields.
func mapping(fields ...pair) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, p := range fields {
		out.Content = append(out.Content, p.key, p.value)
	}
	return out
}

// list returns a list.
func list(of ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: of}
}

// word returns a scalar with the text. The library quotes it if necessary.
func word(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

// number returns a scalar with a whole number.
func number(digits string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: digits}
}

// is returns a pair.
func is(name string, value *yaml.Node) pair { return pair{word(name), value} }

// flow makes a list or mapping fit on one line.
func flow(n *yaml.Node) *yaml.Node {
	n.Style |= yaml.FlowStyle
	return n
}

// below returns a field that is a mapping. It creates the mapping if there is none.
func below(n *yaml.Node, name string) *yaml.Node {
	if at := field(n, name); at != nil && at.Kind == yaml.MappingNode {
		return at
	}
	take(n, name)
	at := mapping()
	n.Content = append(n.Content, word(name), at)
	return at
}

// copied returns a deep copy.
func copied(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Alias, out.Anchor = nil, ""
	if n.Kind == yaml.AliasNode {
		return copied(n.Alias)
	}
	out.Content = nil
	for _, child := range n.Content {
		out.Content = append(out.Content, copied(child))
	}
	return &out
}
