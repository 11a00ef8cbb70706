package requirement_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/requirement"
)

func TestExpressionsAdmitWhatKubernetesWould(t *testing.T) {
	t.Parallel()
	const absent = "\x00"
	for _, c := range []struct {
		op       requirement.Operator
		values   []string
		admitted []string
		refused  []string
	}{
		{requirement.In, []string{"a", "b"}, []string{"a", "b"}, []string{"c", "", absent}},
		{requirement.NotIn, []string{"a"}, []string{"b", "", absent}, []string{"a"}},
		{requirement.Exists, nil, []string{"a", ""}, []string{absent}},
		{requirement.DoesNotExist, nil, []string{absent}, []string{"a", ""}},
		{requirement.Gt, []string{"4"}, []string{"5", "100"}, []string{"4", "-1", "x", "5.5", absent}},
		{requirement.Lt, []string{"4"}, []string{"3", "-7"}, []string{"4", "x", absent}},
		{requirement.Gte, []string{"4"}, []string{"4", "5"}, []string{"3", absent}},
		{requirement.Lte, []string{"4"}, []string{"4", "3"}, []string{"5", absent}},
		{requirement.Gt, []string{"many"}, nil, []string{"1", "many", absent}},
		{requirement.Gt, nil, nil, []string{"1", absent}},
		{"Near", []string{"4"}, nil, []string{"4", absent}},
	} {
		e := requirement.Expression{Key: "k", Op: c.op, Values: c.values}
		for _, v := range c.admitted {
			if !e.Admits(v, v != absent) {
				t.Errorf("%s %v refuses %q", c.op, c.values, v)
			}
		}
		for _, v := range c.refused {
			if e.Admits(v, v != absent) {
				t.Errorf("%s %v admits %q", c.op, c.values, v)
			}
		}
	}
}

// Many values are kept in order and looked up; they admit what a few would, one by one.
func TestManyValuesAreFound(t *testing.T) {
	t.Parallel()
	var values []string
	for i := range 50 {
		values = append(values, strconv.Itoa(i*37%50))
	}
	for _, op := range []requirement.Operator{requirement.In, requirement.NotIn} {
		e := requirement.Expect("k", op, values)
		for i := range 60 {
			if got, want := e.Admits(strconv.Itoa(i), true), (i < 50) == (op == requirement.In); got != want {
				t.Errorf("%s admits %d: %v", op, i, got)
			}
		}
	}
	if values[1] != "37" {
		t.Error("the caller's list has another order")
	}
}

// TestIntersectionIsExact compares the bit sets with trying every value that could matter, one by one.
func TestIntersectionIsExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		if miss := compare(seed); miss != "" {
			t.Fatalf("seed %d: %s", seed, miss)
		}
	}
}

func FuzzIntersectionIsExact(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if miss := compare(seed); miss != "" {
			t.Fatal(miss)
		}
	})
}

func compare(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 7))
	expressions := make([]requirement.Expression, 1+r.IntN(4))
	u := &requirement.Universe{}
	for i := range expressions {
		expressions[i] = drawExpression(r)
		u.MentionExpression(expressions[i])
	}
	u.Mention("k", "5", "zone-a")
	u.Close()
	set := u.Any(0)
	for _, e := range expressions {
		set.And(u.Set(e))
	}
	any := false
	for n := -15; n <= 25; n++ {
		any = any || admitted(expressions, strconv.Itoa(n), true)
	}
	for _, v := range []string{"", "a", "b", "zone-a", "other"} {
		any = any || admitted(expressions, v, true)
	}
	any = any || admitted(expressions, "", false)
	if any == set.Empty() {
		return fmt.Sprintf("%v: some value admitted %v, but the set is %v", expressions, any, set)
	}
	return members(u, set, expressions)
}

// members checks that every bit stands for a value that all expressions agree on.
func members(u *requirement.Universe, set bitset.Set, expressions []requirement.Expression) string {
	for b := range u.Size(0) {
		value, there := u.Value(0, b)
		if want := admitted(expressions, value, there); want != set.Has(b) {
			return fmt.Sprintf("%v: %q (there: %v) admitted %v, bit is %v", expressions, value, there, want, set.Has(b))
		}
		if there && u.Bit(0, value) != b {
			return fmt.Sprintf("bit %d stands for %q, whose bit is %d", b, value, u.Bit(0, value))
		}
	}
	return ""
}

func admitted(expressions []requirement.Expression, value string, there bool) bool {
	for _, e := range expressions {
		if !e.Admits(value, there) {
			return false
		}
	}
	return true
}

func drawExpression(r *rand.Rand) requirement.Expression {
	ops := []requirement.Operator{
		requirement.In, requirement.NotIn, requirement.Exists, requirement.DoesNotExist,
		requirement.Gt, requirement.Lt, requirement.Gte, requirement.Lte,
	}
	e := requirement.Expression{Key: "k", Op: ops[r.IntN(len(ops))]}
	switch e.Op {
	case requirement.In, requirement.NotIn:
		for range r.IntN(4) {
			e.Values = append(e.Values, []string{"a", "b", "zone-a", strconv.Itoa(r.IntN(20) - 5)}[r.IntN(4)])
		}
	case requirement.Exists, requirement.DoesNotExist:
	default:
		e.Values = []string{strconv.Itoa(r.IntN(20) - 5)}
	}
	return e
}
