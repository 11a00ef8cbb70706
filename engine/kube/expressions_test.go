package kube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/requirement"
)

func TestFoldingKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	texts := map[string]string{} // meaning → text, for expressions of values that the meaning shows in full
	for range enginetest.Draws(20000) {
		all := make([]requirement.Expression, r.IntN(4))
		for i := range all {
			all[i] = drawRule(r)
		}
		folded, ok := Intersect(all)
		meaning := meaningOf(all)
		if got := meaningOf(folded); ok && got != meaning {
			t.Fatalf("%v folded to %v", all, folded)
		}
		if !ok && slices.Contains([]byte(meaning), '+') {
			t.Fatalf("%v is said to be impossible", all)
		}
		again, _ := Intersect(folded)
		text := string(AppendExpressions(nil, folded))
		if ok && string(AppendExpressions(nil, again)) != text {
			t.Fatalf("%v folded twice is %v", folded, again)
		}
		backwards := slices.Clone(all)
		slices.Reverse(backwards)
		other, _ := Intersect(backwards)
		if string(AppendExpressions(nil, other)) != text {
			t.Fatalf("%v folds to %v, backwards to %v", all, folded, other)
		}
		if onlyChoices(folded) {
			if known, ok := texts[meaning]; ok && known != text && text != "" && known != "" {
				t.Fatalf("%q and %q mean the same", known, text)
			}
			texts[meaning] = text
		}
	}
}

func onlyChoices(all []requirement.Expression) bool {
	return !slices.ContainsFunc(all, func(e requirement.Expression) bool {
		return e.Op != requirement.In && e.Op != requirement.DoesNotExist
	})
}

// meaningOf tries all values that could matter of the keys a and b: a plus for each pair that is admitted.
func meaningOf(all []requirement.Expression) string {
	const absent = "absent"
	values := []string{absent, "", "x", "y", "other"}
	for n := -2; n < 8; n++ {
		values = append(values, strconv.Itoa(n))
	}
	out := ""
	for _, a := range values {
		for _, b := range values {
			ok := !slices.ContainsFunc(all, func(e requirement.Expression) bool {
				v := map[string]string{"a": a, "b": b}[e.Key]
				return !e.Admits(v, v != absent)
			})
			out += map[bool]string{true: "+", false: "-"}[ok]
		}
	}
	return out
}

func drawRule(r *rand.Rand) requirement.Expression {
	e := requirement.Expression{Key: []string{"a", "b"}[r.IntN(2)]}
	e.Op = []requirement.Operator{
		requirement.In, requirement.In, requirement.NotIn, requirement.Exists, requirement.DoesNotExist,
		requirement.Gt, requirement.Lt, requirement.Gte, requirement.Lte, "Near",
	}[r.IntN(10)]
	switch e.Op {
	case requirement.In, requirement.NotIn:
		for range 1 + r.IntN(3) {
			e.Values = append(e.Values, []string{"x", "y", "1", "4"}[r.IntN(4)])
		}
	case requirement.Gt, requirement.Lt, requirement.Gte, requirement.Lte:
		e.Values = []string{[]string{"-1", "2", "5", "many"}[r.IntN(4)]}
	}
	return e
}

func TestAlternativesAreCombined(t *testing.T) {
	t.Parallel()
	zone := func(values ...string) []requirement.Expression {
		return []requirement.Expression{{Key: "zone", Op: requirement.In, Values: values}}
	}
	host := func(values ...string) []requirement.Expression {
		return []requirement.Expression{{Key: "host", Op: requirement.In, Values: values}}
	}
	for _, c := range []struct {
		name string
		a, b [][]requirement.Expression
		want string
		ok   bool
	}{
		{"nothing at all", nil, nil, "", true},
		{"no constraint on one side", nil, [][]requirement.Expression{zone("a")}, `"zone" In "a"`, true},
		{"one zone in common", [][]requirement.Expression{zone("a", "b")}, [][]requirement.Expression{zone("b", "c")}, `"zone" In "b"`, true},
		{"no zone in common", [][]requirement.Expression{zone("a")}, [][]requirement.Expression{zone("b")}, "", false},
		{"choices of one key become one", [][]requirement.Expression{zone("b"), zone("a")}, [][]requirement.Expression{zone("a", "b", "c")}, `"zone" In "a" "b"`, true},
		{"keys multiply", [][]requirement.Expression{zone("a"), host("h")}, [][]requirement.Expression{zone("b"), host("h")}, `"host" In "h" | "host" In "h"&"zone" In "a" | "host" In "h"&"zone" In "b"`, true},
	} {
		got, ok := Combine(c.a, c.b, 64)
		if placesText(got) != c.want || ok != c.ok {
			t.Errorf("%s: %s, %v", c.name, placesText(got), ok)
		}
	}
	var many, more [][]requirement.Expression
	for i := range 20 {
		many = append(many, slices.Concat(zone(fmt.Sprint("z", i)), host(fmt.Sprint("h", i))))
		more = append(more, []requirement.Expression{{Key: "rack", Op: requirement.In, Values: []string{fmt.Sprint(i)}}, {Key: "row", Op: requirement.Exists}})
	}
	if got, ok := Combine(many, more, 64); len(got) != 64 || !ok {
		t.Errorf("400 combinations are cut to %d, want 64", len(got))
	}
}

func placesText(places [][]requirement.Expression) string {
	out := ""
	for i, term := range places {
		if i > 0 {
			out += " | "
		}
		out += string(AppendExpressions(nil, term))
	}
	return out
}
