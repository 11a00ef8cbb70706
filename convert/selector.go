package convert

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A selector holds the terms that replace a map of v1alpha1.
type selector struct {
	key      *yaml.Node // the key of the map, with its comments
	terms    []*yaml.Node
	narrowed []string // conditions that are dropped, because ids exclude them now
}

func (s selector) keyOrNew() *yaml.Node {
	if s.key == nil {
		return word("")
	}
	return s.key
}

// selectorTerms converts a map to terms. In the map all entries must match, and commas separate alternatives. Of the terms one must match.
func selectorTerms(p pair) selector {
	out := selector{key: p.key}
	special := map[string][]string{}
	tags := []*yaml.Node{mapping()}
	for _, t := range pairs(p.value) {
		values := alternatives(t.value)
		switch t.key.Value {
		case "aws-ids", "aws::ids":
			special["id"] = values
		case "aws::name":
			special["name"] = values
		case "aws::owners":
			special["owner"] = values
		default:
			tags = eachWith(tags, t, values)
		}
	}
	tagged := len(tags[0].Content) > 0
	switch {
	case special["id"] != nil:
		// A term with an id can contain no other condition.
		for _, id := range special["id"] {
			out.terms = append(out.terms, mapping(is("id", word(id))))
		}
		delete(special, "id")
		out.narrowed = slices.Sorted(maps.Keys(special))
		if tagged {
			out.narrowed = append(out.narrowed, "tags")
		}
	case special["name"] != nil || special["owner"] != nil:
		out.terms = named(special, tags, tagged)
	case tagged:
		for _, t := range tags {
			out.terms = append(out.terms, mapping(is("tags", t)))
		}
	}
	return out
}

// named returns the terms for all combinations of owners and names, each with the tags.
func named(special map[string][]string, tags []*yaml.Node, tagged bool) []*yaml.Node {
	orNone := func(values []string) []string {
		if values == nil {
			return []string{""}
		}
		return values
	}
	var out []*yaml.Node
	for _, owner := range orNone(special["owner"]) {
		for _, name := range orNone(special["name"]) {
			for _, t := range tags {
				term := mapping()
				if name != "" {
					set(term, "name", word(name))
				}
				if owner != "" {
					set(term, "owner", word(owner))
				}
				if tagged {
					set(term, "tags", copied(t))
				}
				out = append(out, term)
			}
		}
	}
	return out
}

// alternatives returns the values between commas.
func alternatives(n *yaml.Node) []string {
	var out []string
	for value := range strings.SplitSeq(scalar(n), ",") {
		out = append(out, strings.TrimSpace(value))
	}
	return out
}

// eachWith adds a tag, in all its alternatives, to each set of tags. A tag without a value matches any value.
func eachWith(sets []*yaml.Node, tag pair, values []string) []*yaml.Node {
	var out []*yaml.Node
	for _, s := range sets {
		for _, value := range values {
			next := copied(s)
			if value == "" {
				value = "*"
			}
			with := word(value)
			with.LineComment = tag.value.LineComment
			if scalar(tag.value) == value {
				with.Style = tag.value.Style
			}
			key := copied(tag.key)
			next.Content = append(next.Content, key, with)
			out = append(out, next)
		}
	}
	return out
}

func (c *conversion) noteNarrowed(o *object, name string, s selector) {
	if len(s.narrowed) > 0 {
		c.note(Lost, o, "spec.%s: ids stand alone now; %s beside them are left out", name, strings.Join(s.narrowed, " and "))
	}
}
