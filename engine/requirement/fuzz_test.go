package requirement_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/requirement"
)

// FuzzSetsAgreeWithTheirExpressions reads expressions of one key from lines such as "Gt 4" or "NotIn a b", and values that
// nodes have from lines of the operator "=". Whatever they are, each set holds exactly the values that its expression
// admits, and the intersection of all is empty only if no value at all meets every expression.
func FuzzSetsAgreeWithTheirExpressions(f *testing.F) {
	for _, text := range []string{
		"Gt 4\nLt 6\nNotIn 5", "In a b\n= a c", "Gte 9223372036854775807\nLte -9223372036854775808", "Gt 9223372036854775807\nExists",
		"Lt -9223372036854775808\n= 1", "DoesNotExist\nNotIn", "In 05 5 +5\nGt 4", "Gt\nLt 1 2\nNear 4", "Gt 9223372036854775808\n= 0x10 1e3 -0",
		"NotIn any-0 any-1\nExists\n= any-2", "In \nNotIn x\n= \t",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		expressions, values := read(text)
		u := &requirement.Universe{}
		u.Mention("k", values...)
		for _, e := range expressions {
			u.MentionExpression(e)
			values = append(values, e.Values...)
		}
		u.Close()
		all := u.Any(0)
		for _, e := range expressions {
			set := u.Set(e)
			if miss := members(u, set, []requirement.Expression{e}); miss != "" {
				t.Fatal(miss)
			}
			all.And(set)
		}
		if miss := members(u, all, expressions); miss != "" {
			t.Fatal(miss)
		}
		if some := someValue(expressions, values); some == all.Empty() {
			t.Fatalf("%v: some value admitted %v, but the set is %v", expressions, some, all)
		}
		commutes(t, u, expressions, all)
	})
}

// read makes at most 6 expressions.
func read(text string) (expressions []requirement.Expression, values []string) {
	for _, line := range strings.Split(text, "\n") {
		words := strings.Split(line, " ")
		if words[0] == "=" {
			values = append(values, words[1:]...)
		} else if len(expressions) < 6 {
			expressions = append(expressions, requirement.Expression{Key: "k", Op: requirement.Operator(words[0]), Values: words[1:]})
		}
	}
	return expressions, values
}

// someValue tries absence, every value that was mentioned, the integers next to each of them, and texts that nothing
// mentions: integers further away are like one of these to every expression.
func someValue(expressions []requirement.Expression, mentioned []string) bool {
	if admitted(expressions, "", false) {
		return true
	}
	probes := append([]string{"no integer"}, mentioned...)
	for slices.Contains(mentioned, probes[0]) {
		probes[0] += "!"
	}
	var integers []int64
	for _, v := range mentioned {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			integers = append(integers, n)
			if n > math.MinInt64 {
				integers = append(integers, n-1)
			}
			if n < math.MaxInt64 {
				integers = append(integers, n+1)
			}
		}
	}
	for _, n := range integers {
		probes = append(probes, strconv.FormatInt(n, 10))
	}
	return slices.ContainsFunc(probes, func(v string) bool { return admitted(expressions, v, true) })
}

// commutes checks that expressions mentioned and intersected the other way round admit the same values.
func commutes(t *testing.T, u *requirement.Universe, expressions []requirement.Expression, all bitset.Set) {
	other := &requirement.Universe{}
	other.Mention("k")
	for b := range u.Size(0) {
		if v, there := u.Value(0, b); there && b != u.Size(0)-1 {
			other.Mention("k", v)
		}
	}
	for _, e := range slices.Backward(expressions) {
		other.MentionExpression(e)
	}
	other.Close()
	set := other.Any(0)
	for _, e := range slices.Backward(expressions) {
		set.And(other.Set(e))
	}
	for b := range u.Size(0) {
		if v, there := u.Value(0, b); there && b != u.Size(0)-1 && all.Has(b) != set.Has(other.Bit(0, v)) {
			t.Fatalf("%v: %q is admitted in one order and not in the other", expressions, v)
		}
	}
}
