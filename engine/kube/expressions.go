package kube

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tenon.sh/engine/requirement"
)

// Intersect brings expressions that must all hold into one form for one meaning: sorted by key, with one expression for each key if possible,
// and with sorted values without duplicates. It returns false if no node or pod can meet them all.
func Intersect(all []requirement.Expression) ([]requirement.Expression, bool) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b requirement.Expression) int { return strings.Compare(a.Key, b.Key) })
	out := make([]requirement.Expression, 0, len(all))
	for start, end := 0, 0; start < len(all); start = end {
		for end < len(all) && all[end].Key == all[start].Key {
			end++
		}
		folded, ok := intersectKey(all[start:end])
		if !ok {
			return nil, false
		}
		out = append(out, folded...)
	}
	return out, true
}

// intersectKey intersects expressions of one key. It returns the same as Intersect would.
func intersectKey(same []requirement.Expression) ([]requirement.Expression, bool) {
	for _, e := range same {
		if e.Op == requirement.In {
			return intersectIn(e, same)
		}
	}
	if slices.ContainsFunc(same, func(e requirement.Expression) bool { return e.Op == requirement.DoesNotExist }) {
		absent := requirement.Expression{Key: same[0].Key, Op: requirement.DoesNotExist}
		return []requirement.Expression{absent}, !slices.ContainsFunc(same, func(e requirement.Expression) bool { return !e.Admits("", false) })
	}
	return intersectOpen(same)
}

// intersectIn returns the expression `in` with only the values that all expressions admit. It returns false if no value is left.
func intersectIn(in requirement.Expression, same []requirement.Expression) ([]requirement.Expression, bool) {
	var values []string
	for _, v := range in.Values {
		if !slices.ContainsFunc(same, func(e requirement.Expression) bool { return !e.Admits(v, true) }) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return []requirement.Expression{requirement.Expect(in.Key, requirement.In, slices.Compact(values))}, len(values) > 0
}

// intersectOpen joins expressions that leave infinitely many values: excluded values, and bounds of integers. It returns false if they contradict
// each other.
func intersectOpen(same []requirement.Expression) ([]requirement.Expression, bool) {
	key := same[0].Key
	var without []string
	exists, above, below := false, int64(math.MinInt64), int64(math.MaxInt64) // the bounds themselves are outside
	low, high := false, false
	for _, e := range same {
		switch e.Op {
		case requirement.NotIn:
			without = append(without, e.Values...)
		case requirement.Exists:
			exists = true
		case requirement.Gt, requirement.Gte, requirement.Lt, requirement.Lte:
			n, ok := bound(e)
			if !ok {
				return nil, false
			}
			if e.Op == requirement.Gt || e.Op == requirement.Gte {
				low, above = true, max(above, n)
			} else {
				high, below = true, min(below, n)
			}
		default:
			return nil, false
		}
	}
	if low && high && (above >= below || above+1 == below) {
		return nil, false
	}
	var out []requirement.Expression
	add := func(op requirement.Operator, values ...string) {
		out = append(out, requirement.Expect(key, op, values))
	}
	if len(without) > 0 {
		slices.Sort(without)
		add(requirement.NotIn, slices.Compact(without)...)
	}
	if exists && !low && !high {
		add(requirement.Exists)
	}
	if low {
		add(requirement.Gt, strconv.FormatInt(above, 10))
	}
	if high {
		add(requirement.Lt, strconv.FormatInt(below, 10))
	}
	return out, true
}

// bound returns the open bound of a numeric expression: Gte 4 is Gt 3. It returns false for invalid values.
func bound(e requirement.Expression) (int64, bool) {
	if len(e.Values) != 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(e.Values[0], 10, 64)
	switch {
	case err != nil:
		return 0, false
	case e.Op == requirement.Gte && n > math.MinInt64:
		n--
	case e.Op == requirement.Lte && n < math.MaxInt64:
		n++
	}
	return n, true
}

// AppendExpressions appends a text of intersected expressions that is the same for the same meaning only.
func AppendExpressions(b []byte, all []requirement.Expression) []byte {
	for i, e := range all {
		if i > 0 {
			b = append(b, '&')
		}
		b = strconv.AppendQuote(b, e.Key)
		b = append(b, ' ')
		b = append(b, e.Op...)
		for _, v := range e.Values {
			b = append(b, ' ')
			b = strconv.AppendQuote(b, v)
		}
	}
	return b
}

// Combine joins two lists of alternatives into the alternatives that meet one of each, at most `most`. An empty list means no constraint. It
// returns false if no two alternatives are compatible.
func Combine(a, b [][]requirement.Expression, most int) ([][]requirement.Expression, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	var out [][]requirement.Expression
	for _, x := range a {
		for _, y := range b {
			if both, ok := Intersect(slices.Concat(x, y)); ok {
				out = append(out, both)
			}
		}
	}
	out = Alternatives(out)
	return out[:min(len(out), most)], len(out) > 0
}

// Alternatives brings intersected terms, of which one must hold, into one form for one meaning: it merges terms that are a choice of values of
// one key, and sorts the terms by text.
func Alternatives(terms [][]requirement.Expression) [][]requirement.Expression {
	choices := map[string]int{} // key → place in out
	var out [][]requirement.Expression
	for _, term := range terms {
		if len(term) != 1 || term[0].Op != requirement.In {
			out = append(out, term)
			continue
		}
		e := term[0]
		at, ok := choices[e.Key]
		if !ok {
			choices[e.Key] = len(out)
			out = append(out, term)
			continue
		}
		values := slices.Concat(out[at][0].Values, e.Values)
		slices.Sort(values)
		out[at] = []requirement.Expression{requirement.Expect(e.Key, requirement.In, slices.Compact(values))}
	}
	if len(out) < 2 {
		return out
	}
	texts := make(map[string][]requirement.Expression, len(out))
	for _, term := range out {
		texts[string(AppendExpressions(nil, term))] = term
	}
	out = out[:0]
	for _, text := range SortedKeys(texts) {
		out = append(out, texts[text])
	}
	return out
}
